use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::state::{Knock, NetState};
use super::stream::SimStream;
use super::wire::End;

/// After how many seconds each the first packet is sent again, as Linux does.
const KNOCKS_AFTER_SECONDS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Asks for a connection until there is an answer.
pub(super) async fn dial(
    state: &Arc<Mutex<NetState>>,
    from: IpAddr,
    to: SocketAddr,
) -> io::Result<SimStream> {
    for after_seconds in KNOCKS_AFTER_SECONDS {
        let knock = state.lock().knock(from, to);
        match knock {
            Knock::Lost => sleep(Duration::from_secs(after_seconds)).await,
            Knock::Refused(after) => {
                sleep(after).await;
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Knock::Accepted(wire, after) => {
                // Made here already, so that it is closed if nothing waits for it any more.
                let stream = SimStream::new(state, wire, End::DIALER);
                sleep(after).await;
                return Ok(stream);
            }
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}
