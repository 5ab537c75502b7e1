use std::net::IpAddr;
use std::rc::Rc;

use bytes::BytesMut;
use ladoga_runtime::Gate;
use ladoga_server::{Connection, Moving, Protocol};
use ladoga_service::KeyValue;
use ladoga_tls::Session;
use tokio::net::TcpStream;

use crate::connection::{Departure, Link, Socket};
use crate::door::Door;
use crate::resp::{RespDoor, RespLink, Told};
use crate::serve::Leaving;
use crate::{resp, serve};

/// The ways in to the service on one event loop, which accepts by all of them.
pub struct Entrances<K> {
    http: Rc<Door<K>>,
    resp: Rc<RespDoor<K>>,
}

/// What a client of TLS is told that is not served: a fatal alert, `internal_error` (RFC 8446, 6.2). There is no other word for it before a
/// handshake, and plain text would look like an attack.
const TLS_REFUSAL: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// A connection that came by one of them.
pub struct Client(Spoken);

/// What an event loop knows of a connection that goes on at another one.
pub struct Known {
    /// The session, with TLS.
    secure: Option<Box<Session>>,
    said: Said,
}

/// What was said on it, as far as it holds from then on.
#[derive(Default)]
enum Said {
    /// Nothing: each request of HTTP stands for itself.
    #[default]
    Nothing,
    /// By the protocol of Redis.
    Told(Told),
    /// That it is another node's, with what was read of that protocol.
    Peers(BytesMut),
}

enum Spoken {
    Http(Rc<Link>),
    Resp(Rc<RespLink>),
}

impl<K> Entrances<K> {
    /// The number of HTTP among them, and that of the protocol of Redis.
    pub const HTTP: usize = 0;
    /// The same of the protocol of Redis.
    pub const RESP: usize = 1;

    /// These.
    pub fn new(http: Rc<Door<K>>, resp: RespDoor<K>) -> Entrances<K> {
        Entrances { http, resp: Rc::new(resp) }
    }
}

impl<K: KeyValue> Protocol for Entrances<K> {
    type Connection = Client;

    type Known = Known;

    fn accept(&self, socket: (TcpStream, IpAddr), entrance: usize, known: Option<Known>) -> Rc<Client> {
        let is_known = known.is_some();
        let (secure, said) = known.map(|known| (known.secure, known.said)).unwrap_or_default();
        let socket = Socket::new(socket, secure);
        if entrance == Entrances::<K>::RESP {
            let told = if let Said::Told(told) = said { Some(told) } else { None };
            return Rc::new(Client(Spoken::Resp(Rc::new(self.resp.accept(socket, told)))));
        }
        let mut link = Link::new(socket, Rc::clone(&self.http.core));
        // A client that was on its way when draining began has no request in flight, as if it had stayed where it was. A peer has.
        link.is_late &= !is_known || matches!(said, Said::Peers(_));
        if let Said::Peers(ahead) = said {
            link.arrives_as_peers(&ahead);
        }
        Rc::new(Client(Spoken::Http(Rc::new(link))))
    }

    async fn serve(self: Rc<Self>, client: Rc<Client>) -> Option<Moving<Known>> {
        let (Departure { socket, secure }, said, to) = match &client.0 {
            Spoken::Http(link) => match serve::serve(Rc::clone(&self.http), Rc::clone(link)).await? {
                Leaving::Clients(departure) => (departure, Said::Nothing, None),
                Leaving::Peers { departure, ahead, to } => (departure, Said::Peers(ahead), Some(to)),
            },
            Spoken::Resp(link) => {
                let (departure, told) = resp::serve(&self.resp, link).await?;
                (departure, Said::Told(told), None)
            }
        };
        Some(Moving { socket, known: Known { secure, said }, to })
    }

    fn refusal(&self, bound: &str, entrance: usize) -> Vec<u8> {
        if self.http.access.tls.is_some() {
            return TLS_REFUSAL.to_vec();
        }
        if entrance == Entrances::<K>::RESP {
            resp::refusal(bound)
        } else {
            serve::refusal(&self.http.core, bound)
        }
    }

    fn time_passes(&self) {
        let Door { core, uploads, streams, access, .. } = &*self.http;
        core.look_at_the_date();
        let now_ns = core.clock.monotonic_ns();
        core.slow.time_passes(now_ns);
        core.tell_refused_peers(now_ns);
        if let Some(audit) = &access.audit {
            audit.time_passes(core.clock.wall_ms());
        }
        [&core.bodies, uploads, streams].into_iter().for_each(Gate::look_at_the_clock);
    }
}

impl Client {
    fn connection(&self) -> &dyn Connection {
        match &self.0 {
            Spoken::Http(link) => &**link,
            Spoken::Resp(link) => &**link,
        }
    }
}

impl Connection for Client {
    fn sweep(&self, now_ms: u64) {
        self.connection().sweep(now_ms);
    }

    fn begin_to_drain(&self) {
        self.connection().begin_to_drain();
    }

    fn move_on(&self) -> bool {
        self.connection().move_on()
    }

    fn cut_off(&self) {
        self.connection().cut_off();
    }

    fn is_late(&self) -> bool {
        self.connection().is_late()
    }
}
