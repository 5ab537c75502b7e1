use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// After how long of saying nothing the system asks the other end of a peer's connection whether it is there.
const ASKS_AFTER_SECONDS: u64 = 5;
/// How often it then does.
const ASKS_EVERY_SECONDS: u64 = 2;
/// How long it goes on without an answer, or with bytes that nobody acknowledges. The default is two hours, and a quarter of
/// one: a network that was cut would leave connections behind on the side that has nothing to say.
const UNHEARD_MS_MAX: u32 = 15_000;

/// Has the system end a peer's connection whose other end is not there any more. One that is frozen still is.
pub(crate) fn keep_alive(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(ASKS_AFTER_SECONDS))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(ASKS_EVERY_SECONDS))?;
    sockopt::set_tcp_user_timeout(socket, UNHEARD_MS_MAX)?;
    Ok(())
}
