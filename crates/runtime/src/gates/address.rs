use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// Whom a share belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Address {
    /// A client. Of IPv6 it is a network of 64 bits: one customer has that many addresses, or more.
    Client(Network),
    /// A node of the cluster, for all of its clients.
    Peer(Network),
    /// This node, for repair.
    Own,
}

/// An address without what one client can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Network {
    /// An address.
    V4(Ipv4Addr),
    /// The upper 64 bits.
    V6(u64),
    /// The system does not say, as the connection is gone already.
    Unknown,
}

impl Address {
    /// Of a client at this address; none if the connection is gone already.
    pub fn of_client(ip: Option<IpAddr>) -> Address {
        Address::Client(Network::of(ip))
    }

    /// The same address, as that of a node of the cluster.
    #[must_use]
    pub fn as_peer(self) -> Address {
        match self {
            Address::Client(network) => Address::Peer(network),
            other => other,
        }
    }

    pub(super) fn is_client(self) -> bool {
        matches!(self, Address::Client(_))
    }
}

impl Network {
    fn of(ip: Option<IpAddr>) -> Network {
        match ip.map(|ip| ip.to_canonical()) {
            None => Network::Unknown,
            Some(IpAddr::V4(ip)) => Network::V4(ip),
            Some(IpAddr::V6(ip)) => Network::V6((ip.to_bits() >> 64) as u64),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Client(network) => write!(f, "{network}"),
            Address::Peer(network) => write!(f, "the node at {network}"),
            Address::Own => write!(f, "this node"),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::V4(ip) => write!(f, "{ip}"),
            Network::V6(bits) => write!(f, "{}/64", std::net::Ipv6Addr::from_bits(u128::from(*bits) << 64)),
            Network::Unknown => write!(f, "an unknown address"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_customer_is_one_address() {
        let of = |text: &str| Address::of_client(Some(text.parse().expect("an address")));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:127.0.0.1"), of("127.0.0.1"));
        assert_ne!(of("127.0.0.1"), of("127.0.0.2"));
        assert_ne!(of("127.0.0.1"), of("127.0.0.1").as_peer());
        assert_eq!(of("2001:db8:0:1::1").to_string(), "2001:db8:0:1::/64");
    }
}
