use super::in_flight::Begun;
use super::served::Served;
use crate::auth::PendingLine;

/// Has a command written down, if it belongs there, once it is known what it is answered.
pub(super) fn end_with(audited: Option<PendingLine>, served: &Served) {
    if let Some(audited) = audited {
        audited.end(if served.is_error() { "error" } else { "ok" });
    }
}

/// The same once it is served.
pub(super) fn follow(audited: Option<PendingLine>, begun: Begun) -> Begun {
    if audited.is_none() {
        return begun;
    }
    match begun {
        Begun::Served(served) => {
            end_with(audited, &served);
            Begun::Served(served)
        }
        Begun::Serving(serving) => Begun::Serving(Box::pin(async move {
            let served = serving.await;
            end_with(audited, &served);
            served
        })),
    }
}
