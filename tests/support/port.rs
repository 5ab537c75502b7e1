use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that systems hand out by themselves, so that no outgoing connection takes one in between.
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

/// A port that no other test gets while this lives, although nothing listens on it yet.
///
/// A node listens with `SO_REUSEPORT`, so binding would not tell two nodes apart. What claims a port for all tests of
/// this machine is its number among the UDP ports, which the system takes back even from a test that was killed.
pub(crate) struct Port {
    number: u16,
    _claim: UdpSocket,
}

impl Port {
    pub(crate) fn claim() -> Port {
        static TRIED: AtomicU32 = AtomicU32::new(0);
        let start = process::id().wrapping_mul(61);
        for _ in 0..COUNT {
            let offset = start.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % COUNT;
            let number = (FIRST + offset) as u16;
            let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Port { number, _claim: claim };
            }
        }
        panic!("every port from {FIRST} on is taken");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }
}
