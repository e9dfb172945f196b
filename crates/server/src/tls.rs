//! TLS on the loop: a socket whose bytes are encrypted behind the same reads and writes as others.
//!
//! Whatever a handshake sends is sent while its client's messages are read. Of replies no more is taken than one record
//! while any of it is unsent, so replies wait in [`Connection::pending`](crate::connection), where they are counted.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mio::net::TcpStream;
use parking_lot::RwLock;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

/// Bytes of a file of certificates or of a key.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Replies that are encrypted at once: a record.
const RECORD_BYTES: usize = 16 << 10;
/// A record as it is sent.
const SENT_BYTES: usize = RECORD_BYTES + 256;
/// Reads of the socket before other connections have their turn; each is 4 KiB, or what a record wants.
const READS: usize = 32;
/// What a session takes that is idle: its keys, and the buffer that the next record begins in.
pub(crate) const SESSION_BYTES: usize = 8 << 10;

/// Files that make a server speak TLS at its TCP addresses, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and a root.
    pub certificate: PathBuf,
    /// The private key of the first of them.
    pub key: PathBuf,
    /// Roots of which clients must have a certificate; `None`: clients need none.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// One of them cannot be read, has nothing in it, or the key is not that of the certificate.
    pub fn check(&self) -> io::Result<()> {
        self.read().map(|_| ())
    }

    fn read(&self) -> io::Result<ServerConfig> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&bytes(&self.key)?);
        let key = key.map_err(|error| of(&self.key, &error.to_string()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => builder.with_client_cert_verifier(verifier(path, provider)?),
        };
        let config = builder.with_single_cert(chain, key);
        config.map_err(|error| of(&self.certificate, &error.to_string()))
    }
}

fn verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> io::Result<Arc<dyn rustls::server::danger::ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path)? {
        roots.add(root).map_err(|error| of(path, &error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| of(path, &error.to_string()))
}

fn of(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| of(path, &error.to_string()))?;
    Ok(bytes)
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let bytes = bytes(path)?;
    let found = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| of(path, &error.to_string()))?;
    if found.is_empty() {
        return Err(of(path, "no certificate"));
    }
    Ok(found)
}

/// What sessions begin with, as it was read last.
#[derive(Debug)]
pub(crate) struct Tls(RwLock<Arc<ServerConfig>>);

impl Tls {
    pub(crate) fn new(files: &TlsFiles) -> io::Result<Tls> {
        Ok(Tls(RwLock::new(Arc::new(files.read()?))))
    }

    pub(crate) fn reload(&self, files: &TlsFiles) -> io::Result<()> {
        let config = Arc::new(files.read()?);
        *self.0.write() = config;
        Ok(())
    }

    /// A session that has not begun.
    pub(crate) fn session(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.0.read())).map_err(io::Error::other)
    }

    pub(crate) fn stream(&self, socket: TcpStream) -> io::Result<TlsStream> {
        let session = self.session()?;
        Ok(TlsStream { socket, session, begun: 0, has_ended: false, has_more: false })
    }
}

/// A socket that is spoken TLS at.
#[derive(Debug)]
pub(crate) struct TlsStream {
    pub(super) socket: TcpStream,
    session: ServerConnection,
    /// Bytes that have arrived since any could be read: of a record, or of a handshake.
    begun: usize,
    /// The client sends no more.
    has_ended: bool,
    /// The socket may have more, though less was read than asked for.
    has_more: bool,
}

impl TlsStream {
    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    pub(crate) fn has_more(&self) -> bool {
        self.has_more || self.has_ended
    }

    /// Whether bytes are encrypted that the socket did not take.
    pub(crate) fn holds_output(&self) -> bool {
        self.session.wants_write()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        SESSION_BYTES + self.begun + if self.holds_output() { SENT_BYTES } else { 0 }
    }

    /// Reads until `into` is full or the socket is empty.
    ///
    /// # Errors
    ///
    /// `InvalidData`: what has come is not TLS, or not as the server demands; the client was told.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        self.has_more = false;
        for _ in 0..READS {
            match self.session.reader().read(&mut into[read..]) {
                Ok(0) => self.has_ended = true,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Closed without a word: half a request is not served, so nothing is lost by it.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.has_ended = true,
                Err(error) => return Err(error),
            }
            if self.has_ended || read == into.len() {
                return Ok(read);
            }
            match self.session.read_tls(&mut self.socket) {
                Ok(0) if self.is_handshaking() && self.begun > 0 => {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                Ok(0) => self.has_ended = true,
                Ok(more) => self.begun += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return if read > 0 { Ok(read) } else { Err(error) };
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            match self.session.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() > 0 => self.begun = 0,
                Ok(_) => {}
                Err(error) => {
                    // The alert, if the socket takes it.
                    let _ = self.flush();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
            self.flush()?;
        }
        self.has_more = true;
        if read > 0 { Ok(read) } else { Err(io::ErrorKind::Interrupted.into()) }
    }

    /// Encrypts and sends as much as a record holds, if nothing is unsent.
    pub(crate) fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.flush()?;
        if self.holds_output() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.session.writer().write(&from[..from.len().min(RECORD_BYTES)])?;
        self.flush()?;
        Ok(taken)
    }

    /// Sends what is encrypted, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the client that nothing more comes, if the socket takes it.
    pub(crate) fn end(&mut self) {
        self.session.send_close_notify();
        let _ = self.flush();
    }
}
