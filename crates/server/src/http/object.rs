//! Stored responses: head and body in one allocation, and the metadata that decides their use.

use std::sync::Arc;

use hyper::HeaderMap;

use super::freshness::Life;
use super::request::Request;
use super::vary::Vary;

/// Memory of an object, without its bytes.
const OBJECT_BYTES: usize = 256;
/// Variants of one URL. The oldest is dropped first.
const VARIANTS_MAX: usize = 16;

/// The metadata of a response.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) status: u16,
    pub(crate) life: Life,
    pub(crate) vary: Vary,
    pub(crate) etag: Option<Box<[u8]>>,
    /// Unix time of `Date`, or of arrival, in seconds.
    pub(crate) date: i64,
    pub(crate) last_modified: Option<i64>,
    /// As the origin has written it.
    pub(crate) last_modified_text: Option<Box<[u8]>>,
}

/// A response. Its body is empty while it arrives.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) meta: Meta,
    /// Status line and fields, each with its end of line, but without hop-by-hop fields, `Age` and `Content-Length`;
    /// then the body.
    bytes: Box<[u8]>,
    head_bytes: usize,
}

impl Object {
    pub(crate) fn new(meta: Meta, bytes: Vec<u8>, head_bytes: usize) -> Object {
        Object { meta, bytes: bytes.into_boxed_slice(), head_bytes }
    }

    /// Status line and fields.
    pub(crate) fn head(&self) -> &[u8] {
        &self.bytes[..self.head_bytes]
    }

    /// Fields, each a line with its end.
    pub(crate) fn fields(&self) -> &[u8] {
        let head = self.head();
        memchr::memchr(b'\n', head).map_or(&[], |end| &head[end + 1..])
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.head_bytes..]
    }

    /// Its weight in the cache.
    pub(crate) fn weight(&self) -> usize {
        let meta = &self.meta;
        let boxed = [&meta.etag, &meta.last_modified_text].into_iter().flatten();
        let boxed: usize = boxed.map(|bytes| bytes.len()).sum();
        OBJECT_BYTES + self.bytes.len() + boxed + meta.vary.bytes()
    }

    /// Whether the origin can validate it.
    pub(crate) fn has_validator(&self) -> bool {
        self.meta.etag.is_some() || self.meta.last_modified_text.is_some()
    }

    /// A strong entity tag, which `If-Range` may compare.
    pub(crate) fn strong_etag(&self) -> Option<&[u8]> {
        self.meta.etag.as_deref().filter(|etag| !etag.starts_with(b"W/"))
    }
}

/// The stored responses of a URL, newest first.
#[derive(Debug, Default)]
pub(crate) struct Variants(Vec<Arc<Object>>);

impl Variants {
    /// The newest one that answers a request.
    pub(crate) fn matching(&self, request: &Request<'_, '_>) -> Option<&Arc<Object>> {
        self.0.iter().find(|object| object.meta.vary.matches(request))
    }

    /// Adds a response, which replaces those for the same requests. The others keep at most `bytes_max` together.
    pub(crate) fn with(&self, new: Arc<Object>, bytes_max: usize) -> Variants {
        let mut bytes = 0;
        let others = self.0.iter().filter(|old| old.meta.vary != new.meta.vary);
        let others = others.take(VARIANTS_MAX - 1).take_while(|old| {
            bytes += old.weight();
            bytes <= bytes_max
        });
        let others: Vec<_> = others.cloned().collect();
        Variants(std::iter::once(new).chain(others).collect())
    }

    pub(crate) fn weight(&self) -> usize {
        self.0.iter().map(|object| object.weight()).sum()
    }
}

/// Hop-by-hop fields (RFC 9110, section 7.6.1; RFC 9111, section 3.1), and those that are written anew.
const OF_CONNECTION: [&str; 12] = [
    "age",
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a field is hop-by-hop.
pub(crate) fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.binary_search(&name).is_ok()
}

/// The names in `Connection`, in lower case.
pub(crate) fn listed(fields: &HeaderMap) -> Vec<String> {
    let values = fields.get_all(hyper::header::CONNECTION);
    let names = values.iter().flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    let names = names.map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase());
    names.filter(|name| !name.is_empty()).collect()
}

/// The name of a field's line.
pub(crate) fn name_of(line: &[u8]) -> &[u8] {
    memchr::memchr(b':', line).map_or(line, |end| &line[..end])
}

/// The lines of a head, each with its end.
pub(crate) fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split_inclusive(|&byte| byte == b'\n')
}

/// Fields that a validation does not change, because they describe the body.
const OF_BODY: [&str; 6] =
    ["content-encoding", "content-length", "content-md5", "content-range", "etag", "via"];

/// A validated response, updated with the fields of the 304 (RFC 9111, section 3.2): `new` is its head.
pub(crate) fn updated(old: &Object, meta: Meta, new: &[u8]) -> Object {
    let is_new = |name: &[u8]| lines(new).skip(1).any(|line| name_of(line) == name);
    let stays = |name: &[u8]| OF_BODY.iter().any(|of| of.as_bytes() == name);
    let mut bytes = Vec::with_capacity(old.bytes.len() + new.len());
    let status_line = lines(old.head()).next().unwrap_or_default();
    bytes.extend_from_slice(status_line);
    for line in lines(old.fields()) {
        let name = name_of(line);
        if stays(name) || !is_new(name) {
            bytes.extend_from_slice(line);
        }
    }
    for line in lines(new).skip(1).filter(|line| !stays(name_of(line))) {
        bytes.extend_from_slice(line);
    }
    let head_bytes = bytes.len();
    bytes.extend_from_slice(old.body());
    let meta = Meta {
        status: old.meta.status,
        etag: old.meta.etag.clone(),
        last_modified: meta.last_modified.or(old.meta.last_modified),
        last_modified_text: meta.last_modified_text.or_else(|| old.meta.last_modified_text.clone()),
        vary: if is_new(b"vary") { meta.vary } else { old.meta.vary.clone() },
        ..meta
    };
    Object::new(meta, bytes, head_bytes)
}
