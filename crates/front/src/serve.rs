use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use hyper::server::conn::http1;
use ladoga_runtime::{Gate, Taken};
use ladoga_service::KeyValue;
use tokio::net::TcpStream;

use crate::connection::{Core, Link, LinkIo, Overdue, StreamError, Takeover, write_all, write_stream};
use crate::door::Door;
use crate::handlers::Service;
use crate::http::Refusal;
use ladoga_server::{Connection, Protocol};

/// What a client may still send after its last answer: one that is sending a value does not listen before it is
/// done, and a reset would take the answer away from it.
const LINGER_BYTES_MAX: usize = 128 << 20;

/// How a connection ends.
enum Parting {
    /// Everything is said.
    Over,
    /// With a last word of ours, while the client may still be speaking.
    Say(Refusal),
    /// Without one: there is nobody who listens.
    Drop,
    /// So that the client notices that something is missing.
    Abort,
}

/// How hyper gave a connection back.
enum End {
    /// It is over, for the reason given.
    Over(hyper::Result<()>),
    /// Somebody waited for too long.
    Overdue(Overdue),
    /// Something else is to go on with the connection.
    Takeover(Takeover),
}

impl<K: KeyValue> Protocol for Door<K> {
    type Connection = Link;

    fn accept(&self, socket: TcpStream) -> Rc<Link> {
        Rc::new(Link::new(socket, Rc::clone(&self.core)))
    }

    async fn serve(self: Rc<Self>, link: Rc<Link>) {
        serve(self, link).await;
    }

    fn refusal(&self, bound: &str) -> Vec<u8> {
        Refusal::over_capacity(bound).into_last_bytes(self.core.clock.wall_ms())
    }

    fn time_passes(&self) {
        [&self.core.bodies, &self.uploads, &self.streams].into_iter().for_each(Gate::look_at_the_clock);
    }
}

/// Serves a connection until it ends.
async fn serve<K: KeyValue>(door: Rc<Door<K>>, link: Rc<Link>) {
    match converse(&door, &link).await {
        Parting::Drop => {}
        Parting::Abort => link.abort_on_drop(),
        Parting::Say(refusal) => {
            door.core.metrics.refused_before_routing(refusal.status().as_u16());
            let bytes = refusal.into_last_bytes(door.core.clock.wall_ms());
            part(&link, &bytes, true).await;
        }
        Parting::Over => part(&link, &[], link.may_be_speaking()).await,
    }
}

async fn converse<K: KeyValue>(door: &Rc<Door<K>>, link: &Rc<Link>) -> Parting {
    let core = &door.core;
    let mut protocol = &core.builders.few_headers;
    loop {
        let streamed = match serve_http(door, link, protocol).await {
            End::Takeover(Takeover::Stream(streamed)) => streamed,
            End::Takeover(Takeover::Peer) => return serve_as_peer(door, link).await,
            // What hyper says of too many headers, it also says of a length of the body that is a mark of its own.
            End::Over(Err(error)) if error.is_parse_too_large() && link.may_have_lost_its_head() => {
                return Parting::Say(Refusal::body_without_end());
            }
            End::Over(Err(error)) if error.is_parse_too_large() => {
                if std::ptr::eq(protocol, &raw const core.builders.many_headers) {
                    return Parting::Say(Refusal::headers_too_large());
                }
                protocol = &core.builders.many_headers;
                link.head_begins_again();
                continue;
            }
            End::Over(result) => return after_hyper(link, result),
            End::Overdue(Overdue::Look) if link.is_unused() => continue,
            End::Overdue(overdue) => return when_overdue(overdue, core),
        };
        match unless_overdue(link, write_stream(link, streamed)).await {
            Ok(Ok(true)) if !core.is_draining() => link.rests(),
            Ok(Ok(_)) => return Parting::Over,
            Ok(Err(error)) => {
                match &error {
                    StreamError::Socket(_) => tracing::debug!(%error, "an answer was cut off"),
                    StreamError::Displaced(_) => {
                        core.metrics.displaced(Taken::Stream);
                        tracing::debug!(%error, "an answer was cut off");
                    }
                    StreamError::Store(_) => tracing::warn!(%error, "an answer was cut off"),
                }
                core.metrics.cut_off();
                return Parting::Abort;
            }
            Err(overdue) => return when_overdue(overdue, core),
        }
    }
}

/// Has hyper serve requests until it is done with the connection, or somebody takes it.
async fn serve_http<K: KeyValue>(door: &Rc<Door<K>>, link: &Rc<Link>, protocol: &http1::Builder) -> End {
    let service = Service::new(Rc::clone(door), Rc::clone(link));
    let mut connection = protocol.serve_connection(LinkIo(Rc::clone(link)), service);
    // Who came after draining had begun is answered once, and closed with that answer.
    let mut knows_of_draining = link.is_late();
    let end = poll_fn(|context| {
        link.driven_by(context.waker());
        if let Some(overdue) = link.verdict() {
            return Poll::Ready(End::Overdue(overdue));
        }
        if door.core.is_draining() && !knows_of_draining {
            knows_of_draining = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        let polled = connection.poll_without_shutdown(context);
        match link.take_over() {
            Some(takeover) => Poll::Ready(End::Takeover(takeover)),
            None => polled.map(End::Over),
        }
    })
    .await;
    link.give_back(connection.into_parts().read_buf);
    end
}

/// Serves a connection that a peer has asked for.
async fn serve_as_peer<K: KeyValue>(door: &Rc<Door<K>>, link: &Rc<Link>) -> Parting {
    // The handler saw to it that there is one.
    let Some(cluster) = &door.cluster else { return Parting::Drop };
    link.peer_begins();
    let protocol = cluster.protocol();
    let switching =
        format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\r\n");
    let serving = async {
        write_all(link, switching.as_bytes()).await?;
        cluster.serve_peer(link).await
    };
    match unless_overdue(link, serving).await {
        Ok(Ok(())) => Parting::Over,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection of a peer broke");
            Parting::Drop
        }
        Err(overdue) => when_overdue(overdue, &door.core),
    }
}

fn after_hyper(link: &Link, result: hyper::Result<()>) -> Parting {
    match result {
        Ok(()) => Parting::Over,
        Err(_) if link.has_too_long_a_head() => Parting::Say(Refusal::headers_too_large()),
        Err(error) if error.is_parse() && link.owes_no_answer() => Parting::Say(
            Refusal::bad_request(format_args!("this is no request: {error}; expected HTTP/1.1")).and_close(),
        ),
        Err(error) => {
            tracing::debug!(%error, "a connection broke");
            Parting::Drop
        }
    }
}

fn when_overdue(overdue: Overdue, core: &Core) -> Parting {
    let limits = &core.limits;
    match overdue {
        Overdue::Head | Overdue::Look => {
            Parting::Say(Refusal::request_timeout("head", limits.request_timeout_ms))
        }
        Overdue::Body => Parting::Say(Refusal::request_timeout("body", limits.request_timeout_ms)),
        Overdue::Answer | Overdue::Drain => {
            core.metrics.cut_off();
            Parting::Abort
        }
        Overdue::Idle => Parting::Drop,
    }
}

/// Says the last word. Where the client is still speaking, or may be, waits until it is done, though not for long.
async fn part(link: &Link, last: &[u8], may_be_speaking: bool) {
    link.begins_to_linger();
    let end = async {
        write_all(link, last).await?;
        link.shut_down()?;
        let mut may_be_speaking = may_be_speaking;
        let mut discarded = 0;
        while discarded < LINGER_BYTES_MAX {
            let read = poll_fn(|context| match link.poll_discard(context) {
                Poll::Pending if !may_be_speaking => Poll::Ready(Ok(0)),
                read => read,
            });
            match read.await? {
                0 => break,
                count => discarded += count,
            }
            may_be_speaking = true;
        }
        std::io::Result::Ok(())
    };
    // However that ends, the connection does.
    let _ = unless_overdue(link, end).await;
}

async fn unless_overdue<T>(link: &Link, future: impl Future<Output = T>) -> Result<T, Overdue> {
    let mut future = pin!(future);
    poll_fn(|context| {
        link.driven_by(context.waker());
        match link.verdict() {
            Some(overdue) => Poll::Ready(Err(overdue)),
            None => future.as_mut().poll(context).map(Ok),
        }
    })
    .await
}
