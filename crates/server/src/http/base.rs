//! The origin of HTTP requests.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// An origin for HTTP, with its limits.
#[derive(Clone, Debug)]
pub struct HttpOrigin {
    /// The URL that paths are appended to.
    pub base: BaseUrl,
    /// Timeout for the head of a response, in milliseconds. The next bytes of its body may take six times as long.
    pub timeout_ms: u64,
    /// Milliseconds for which a client may stall a body that is not stored.
    pub reader_timeout_ms: u64,
    /// Fetches in flight. Further requests are answered 503.
    pub fetches: usize,
    /// Whether a response with `Set-Cookie` may be stored, and the cookie sent to other clients.
    pub stores_cookies: bool,
}

impl HttpOrigin {
    /// With timeouts of five seconds for a fetch and 30 for a client, and 1,024 fetches.
    pub fn new(base: BaseUrl) -> HttpOrigin {
        HttpOrigin {
            base,
            timeout_ms: 5000,
            reader_timeout_ms: 30_000,
            fetches: 1024,
            stores_cookies: false,
        }
    }
}

/// The URL of an HTTP server, with or without a path: `http://HOST:PORT` or `http://HOST:PORT/PATH`. The path of each
/// request is appended to it.
///
/// ```
/// use frazil_server::BaseUrl;
///
/// assert!("http://127.0.0.1:8080".parse::<BaseUrl>().is_ok());
/// assert!("http://127.0.0.1:8080/{key}".parse::<BaseUrl>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) authority: String,
    /// Without a slash at its end.
    pub(crate) prefix: String,
}

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<BaseUrl, String> {
        let uri: Uri = text.parse().map_err(|error| format!("malformed URL: {error}"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(
                    "origins are fetched from over plain http only; put a TLS proxy in front of yours"
                        .into(),
                );
            }
            _ => {
                return Err(
                    "expected a URL that begins with `http://`, as in `http://127.0.0.1:8080`"
                        .into(),
                );
            }
        }
        if uri.query().is_some() || text.contains(['#', '@', '{']) {
            return Err(
                "a query, fragment or user is not allowed in the URL of an HTTP origin".into()
            );
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("the URL has no host")?;
        let authority = uri.authority().map(|authority| authority.to_string()).unwrap_or_default();
        let port = match uri.port_u16() {
            Some(port) => port,
            None if authority != host => return Err("expected a port after the colon".into()),
            None => 80,
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(BaseUrl { host, port, authority, prefix })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::BaseUrl;

    #[test]
    fn invalid_urls_are_refused() {
        for text in [
            "https://a",
            "a:80",
            "http://",
            "http://a/{key}",
            "http://a?b",
            "http://u@a",
            "http://a:",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
        let base: BaseUrl = "http://[::1]:8080/a/".parse().unwrap();
        assert_eq!((base.host.as_str(), base.port, base.prefix.as_str()), ("::1", 8080, "/a"));
        assert_eq!(base.to_string(), "http://[::1]:8080/a");
    }
}
