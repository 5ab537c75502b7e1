use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The port of clients.
pub(crate) const NATIVE_PORT: u16 = 9042;
/// The port of other nodes.
pub(crate) const STORAGE_PORT: u16 = 7000;

/// Addresses of this machine: `127.A.B.1`, `127.A.B.2` and so on, which no other nodes get while this lives. All of them have the same
/// ports, as machines of their own would.
pub(crate) struct Network {
    of: (u8, u8),
    /// What claims it for all processes of this machine; the system takes it back even from one that was killed.
    _claim: UdpSocket,
}

impl Network {
    pub(crate) fn claim() -> Network {
        static TRIED: AtomicU32 = AtomicU32::new(0);
        let start = process::id().wrapping_mul(61);
        for _ in 0..16_384 {
            let offset = start.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % 16_384;
            let of = (64 + (offset >> 8) as u8, offset as u8);
            let first = Ipv4Addr::new(127, of.0, of.1, 1);
            let Ok(claim) = UdpSocket::bind((first, NATIVE_PORT)) else { continue };
            let is_free =
                [NATIVE_PORT, STORAGE_PORT].iter().all(|port| TcpListener::bind((first, *port)).is_ok());
            if is_free {
                return Network { of, _claim: claim };
            }
        }
        panic!("all networks of this machine are taken");
    }

    /// The address of a node, counted from 0.
    pub(crate) fn host(&self, node: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, self.of.0, self.of.1, u8::try_from(node + 1).expect("a few nodes"))
    }
}
