use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use ladoga_http1::server::Request;
use ladoga_profiler::ProfileError;

use super::profiling::{Profiling, ProfilingError, Rendered};
use crate::connection::{Core, Link};
use crate::http::{Answer, Field, ProfileTarget, Refusal};

/// `GET` of a profile of this process. On a node without tokens, only for clients on its own machine. Taken in every stage but the last: opening a store takes time too.
pub(crate) fn profile(
    core: &Rc<Core>,
    link: &Rc<Link>,
    request: &Request,
    is_anybodys: bool,
) -> Result<impl Future<Output = Result<Answer, Refusal>> + use<>, Refusal> {
    if is_anybodys && !link.is_from_this_machine() {
        let reason =
            "only clients on the node's own machine can take profiles; connect from a loopback address";
        return Err(Refusal::forbidden(reason));
    }
    let target = ProfileTarget::parse(request.path(), request.query()).map_err(Refusal::bad_request)?;
    let (link, core) = (Rc::clone(link), Rc::clone(core));
    if core.is_draining() {
        return Err(draining());
    }
    let (kind, content_type) = (target.kind, target.format.content_type());
    let profiling = Profiling::start(target)?;
    Ok(async move {
        let rendered = unless_ended(profiling, &link, &core).await?;
        let field = Some(Field::new("ladoga-profile", format!("{kind}; samples={}", rendered.samples)));
        Ok(Answer { field, ..Answer::content(content_type, rendered.bytes) })
    })
}

/// Waits for the profile, unless the client leaves or the node is to stop: dropping this future ends the profile.
async fn unless_ended(mut profiling: Profiling, link: &Link, core: &Core) -> Result<Rendered, Refusal> {
    poll_fn(|context| {
        // Draining wakes all connections.
        if core.is_draining() {
            return Poll::Ready(Err(draining()));
        }
        if link.poll_left(context).is_ready() {
            let reason = "the client closed the connection before the profile was complete; keep it open";
            return Poll::Ready(Err(Refusal::bad_request(reason).and_close()));
        }
        Pin::new(&mut profiling).poll(context).map(|rendered| Ok(rendered?))
    })
    .await
}

fn draining() -> Refusal {
    Refusal::unavailable("the node is draining: it is shutting down and takes no profile").and_close()
}

impl From<ProfilingError> for Refusal {
    fn from(error: ProfilingError) -> Refusal {
        match &error {
            ProfilingError::Profile(ProfileError::Busy { .. }) => Refusal::conflict(&error),
            ProfilingError::Profile(ProfileError::Unavailable { .. }) => Refusal::not_implemented(&error),
            ProfilingError::NoThread(_) => Refusal::unavailable(&error),
            ProfilingError::Profile(_) | ProfilingError::Lost => {
                tracing::error!(%error, "a profile failed");
                Refusal::internal(&error)
            }
        }
    }
}
