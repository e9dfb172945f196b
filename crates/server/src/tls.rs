//! TLS on the loop: a stream that encrypts behind the same reads and writes as others.
//!
//! A handshake's messages are sent while the client's are read. Replies are accepted a record at a time, when the one
//! before is sent, so further replies wait in [`Connection::pending`](crate::connection), where they are counted.

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

/// Size of a file of certificates or a key.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of replies encrypted at once: a record.
const RECORD_BYTES: usize = 16 << 10;
/// Size of a record on the wire.
const SENT_BYTES: usize = RECORD_BYTES + 256;
/// Reads of a socket before other connections have their turn. Each is 4 KiB, or what a record needs.
const READS: usize = 32;
/// Memory of an idle session: its keys, and the buffer for the next record.
pub(crate) const SESSION_BYTES: usize = 8 << 10;

/// Files that turn TLS on at a server's TCP addresses, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediate ones.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Roots for clients' certificates; `None`: clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is empty, or the key does not match the certificate.
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
        return Err(of(path, "expected a certificate in PEM, found none"));
    }
    Ok(found)
}

/// The configuration of new sessions, as last read.
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

    /// A new session.
    pub(crate) fn session(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.0.read())).map_err(io::Error::other)
    }

    pub(crate) fn stream(&self, socket: TcpStream) -> io::Result<TlsStream> {
        let session = self.session()?;
        Ok(TlsStream { socket, session, begun: 0, has_ended: false, has_more: false })
    }
}

/// A TCP stream with TLS.
#[derive(Debug)]
pub(crate) struct TlsStream {
    pub(super) socket: TcpStream,
    session: ServerConnection,
    /// Bytes received of an incomplete record or handshake.
    begun: usize,
    /// The client has closed its side.
    has_ended: bool,
    /// The socket may have more to read after a short read.
    has_more: bool,
}

impl TlsStream {
    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    pub(crate) fn has_more(&self) -> bool {
        self.has_more || self.has_ended
    }

    /// Whether there are encrypted bytes that the socket has not accepted.
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
    /// `InvalidData`: the input is not TLS, or not as the server demands. The client has been told.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        self.has_more = false;
        for _ in 0..READS {
            match self.session.reader().read(&mut into[read..]) {
                Ok(0) => self.has_ended = true,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Closed without `close_notify`. A partial request is not served, so a truncation does no harm.
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
                    // The alert, if the socket accepts it.
                    let _ = self.flush();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
            self.flush()?;
        }
        self.has_more = true;
        if read > 0 { Ok(read) } else { Err(io::ErrorKind::Interrupted.into()) }
    }

    /// Encrypts and sends at most a record, if nothing is unsent.
    pub(crate) fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.flush()?;
        if self.holds_output() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.session.writer().write(&from[..from.len().min(RECORD_BYTES)])?;
        self.flush()?;
        Ok(taken)
    }

    /// Sends encrypted bytes, as far as the socket accepts them.
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

    /// Sends `close_notify`, if the socket accepts it.
    pub(crate) fn end(&mut self) {
        self.session.send_close_notify();
        let _ = self.flush();
    }
}
