//! The address of a target: parses its URL, resolves its name, and distributes the clients.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::error::{Error, Kind};
use crate::transport::socket::Peer;

/// How long an address may take to accept a connection, if there are several.
const PROBE: Duration = Duration::from_secs(1);

/// An HTTP or HTTPS URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) is_tls: bool,
    /// Name or address, without the brackets of IPv6.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Starts with a slash and does not end with one; empty for the root.
    pub(crate) path: String,
}

impl Url {
    /// Parses a URL; without a scheme, it is plain HTTP.
    ///
    /// # Errors
    /// A description of what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (is_tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => return Err(format!("scheme \"{scheme}\", allowed: http, https")),
            None => (false, text),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        if authority.contains('@') {
            return Err("a user in the URL; give keys in their own settings".to_owned());
        }
        if path.contains(['?', '#', ' ']) {
            return Err("a query, a fragment or a blank in the URL".to_owned());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => inner.split_once(']').ok_or("a bracket that is not closed")?,
            None => authority.find(':').map_or((authority, ""), |colon| authority.split_at(colon)),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
            Some(digits) => digits.parse().map_err(|_| format!("port \"{digits}\""))?,
            None => return Err(format!("\"{port}\" behind the host")),
        };
        if host.is_empty() {
            return Err("no host".to_owned());
        }
        let path = path.trim_end_matches('/').to_owned();
        Ok(Self { is_tls, host: host.to_owned(), port, path })
    }

    /// Returns the value of the host header; the port is omitted if it is the default of the
    /// scheme.
    pub(crate) fn host_header(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let is_default = self.port == if self.is_tls { 443 } else { 80 };
        if is_default { host } else { format!("{host}:{}", self.port) }
    }
}

/// A URL whose name has been resolved.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Endpoint {
    /// Resolves the name of a URL, once for a trial, so that the resolver is not measured.
    ///
    /// # Errors
    /// The name has no address.
    pub(crate) fn resolve(url: Url) -> Result<Self, Error> {
        let action = || format!("resolve host \"{}\"", url.host);
        let resolved = (url.host.as_str(), url.port).to_socket_addrs();
        let addresses: Vec<SocketAddr> = match resolved {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                return Err(Error::target(action(), error.to_string()).of(Kind::Unreachable));
            }
        };
        let mut addresses = of_one_family(addresses);
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            return Err(Error::target(action(), "it has no address").of(Kind::Unreachable));
        }
        Ok(Self { url, addresses })
    }
}

/// Keeps the addresses of the family that answers. A name such as `localhost` has both families,
/// but many servers listen on one only, and half of the clients would be refused.
fn of_one_family(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else { return addresses };
    let (preferred, other): (Vec<_>, Vec<_>) =
        addresses.iter().partition(|address| address.is_ipv4() == first.is_ipv4());
    let answers = |addresses: &[SocketAddr]| {
        addresses.iter().any(|address| TcpStream::connect_timeout(address, PROBE).is_ok())
    };
    if other.is_empty() || answers(&preferred) || !answers(&other) { preferred } else { other }
}

/// Returns the endpoint and the peer address of a client. Clients are spread evenly over endpoints
/// and their addresses.
///
/// # Errors
/// The host is not a valid name for a certificate.
pub(crate) fn peer_of<'a>(
    endpoints: &'a [Endpoint],
    tls: Option<&Arc<ClientConfig>>,
    client: u32,
) -> Result<(&'a Endpoint, Peer), Error> {
    let client = client as usize;
    let endpoint = &endpoints[client % endpoints.len()];
    let turn = client / endpoints.len();
    let address = endpoint.addresses[turn % endpoint.addresses.len()];
    let tls = match tls {
        Some(config) if endpoint.url.is_tls => {
            let host = endpoint.url.host.clone();
            let name = ServerName::try_from(host).map_err(|error| {
                Error::target(format!("use host \"{}\"", endpoint.url.host), error.to_string())
            })?;
            Some((Arc::clone(config), name))
        }
        _ => None,
    };
    Ok((endpoint, Peer { address, source: None, tls }))
}

/// Local addresses that connections use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources(Vec<IpAddr>);

impl Sources {
    /// Keeps those of a target's source addresses that this host has: a list may cover several
    /// hosts.
    ///
    /// # Errors
    /// Addresses are listed, and this host has none of them.
    pub(crate) fn of_this_host(texts: &[&str]) -> Result<Self, Error> {
        let named = texts.iter().filter_map(|text| text.parse().ok());
        let here: Vec<IpAddr> =
            named.filter(|ip: &IpAddr| UdpSocket::bind(SocketAddr::new(*ip, 0)).is_ok()).collect();
        if here.is_empty() && !texts.is_empty() {
            let action = format!("connect from {}", texts.join(", "));
            return Err(Error::target(action, "this host has no such address")
                .of(Kind::Unsupported)
                .with_hint("name addresses of this host in the target's setting source"));
        }
        Ok(Self(here))
    }

    /// Returns the local address of a client. Clients are spread evenly over the addresses of the
    /// right family, and over all their combinations with the target's endpoints.
    ///
    /// # Errors
    /// No address has the right family.
    pub(crate) fn of_client(
        &self,
        client: u32,
        endpoints: usize,
        to: SocketAddr,
    ) -> Result<Option<IpAddr>, Error> {
        let fitting: Vec<&IpAddr> =
            self.0.iter().filter(|ip| ip.is_ipv4() == to.is_ipv4()).collect();
        if fitting.is_empty() && !self.0.is_empty() {
            let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
            let why = format!("the target's setting source has no address of {family}");
            return Err(Error::target(format!("connect to {to}"), why).of(Kind::Unsupported));
        }
        let client = client as usize;
        let turn = client / endpoints.max(1) + client % endpoints.max(1);
        Ok(fitting.get(turn % fitting.len().max(1)).map(|ip| **ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_use_all_pairs_of_source_addresses_and_endpoints() {
        let sources = Sources::of_this_host(&["127.0.0.1", "192.0.2.1", "127.0.0.2"]);
        let sources = sources.expect("two of them are here");
        let to: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        let pairs: std::collections::BTreeSet<_> = (0..8)
            .map(|client| (client % 2, sources.of_client(client, 2, to).expect("of the family")))
            .collect();
        assert_eq!(pairs.len(), 4);
        let of_one_endpoint = |client| sources.of_client(client, 1, to).expect("of the family");
        assert_ne!(of_one_endpoint(0), of_one_endpoint(1));
        assert!(Sources::of_this_host(&["192.0.2.1"]).is_err());
        assert!(sources.of_client(0, 1, "[::1]:80".parse().expect("an address")).is_err());
        let none = Sources::of_this_host(&[]).expect("nothing is asked for");
        assert_eq!(none.of_client(0, 1, to).expect("the kernel chooses"), None);
    }

    #[test]
    fn urls_are_parsed() {
        let url = Url::parse("https://[::1]:8443/v1/AUTH_x/").expect("a URL");
        assert!(url.is_tls);
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 8443, "/v1/AUTH_x"));
        assert_eq!(url.host_header(), "[::1]:8443");
        let plain = Url::parse("rgw1").expect("a bare host");
        assert_eq!((plain.port, plain.host_header().as_str()), (80, "rgw1"));
        let aws = Url::parse("https://s3.eu-west-1.amazonaws.com").expect("a URL");
        assert_eq!(aws.host_header(), "s3.eu-west-1.amazonaws.com");
    }

    #[test]
    fn an_invalid_url_is_rejected_with_a_reason() {
        for (text, reason) in [
            ("ftp://x", "ftp"),
            ("http://", "no host"),
            ("http://u:p@x", "user"),
            ("http://x:port", "port"),
            ("http://[::1", "bracket"),
            ("http://x/?a=b", "query"),
        ] {
            let error = Url::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn clients_spread_evenly_over_endpoints_and_their_addresses() {
        let endpoint = |name: &str, addresses: &[&str]| Endpoint {
            url: Url::parse(name).expect("a URL"),
            addresses: addresses.iter().map(|text| text.parse().expect("an address")).collect(),
        };
        let endpoints =
            [endpoint("a", &["10.0.0.1:80", "10.0.0.2:80"]), endpoint("b", &["10.0.1.1:80"])];
        let mut counts = std::collections::BTreeMap::new();
        for client in 0..40 {
            let (_, peer) = peer_of(&endpoints, None, client).expect("no name is checked");
            *counts.entry(peer.address.to_string()).or_insert(0) += 1;
        }
        let clients: Vec<i32> = counts.into_values().collect();
        assert_eq!(clients, [10, 10, 20]);
    }
}
