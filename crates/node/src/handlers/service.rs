use std::rc::Rc;

use ladoga_http1::server::Request;

use super::reply::Reply;
use super::{cluster, entity, profile, put, range, status};
use crate::coordinate::until_it_may_coordinate;
use crate::http::{EntityTarget, Refusal, Route, route};
use crate::metrics::Operation;
use crate::server::{EventLoop, Link};
use crate::store::Store;

/// Serves a request.
pub(crate) fn handle<S: Store>(
    event_loop: &Rc<EventLoop<S>>,
    link: &Rc<Link>,
    request: Request,
) -> (Operation, Reply) {
    let call = Call { event_loop, link, waited_ms: 0 };
    match route(&request.method, request.uri.path()) {
        Ok(route) => {
            let reply = call.reply(route, request);
            (Operation::Of(route), reply.unwrap_or_else(|refusal| Reply::Now(refusal.into())))
        }
        Err(refusal) => (Operation::None, Reply::Now(refusal.into())),
    }
}

/// A request, and where it came from.
pub(super) struct Call<'c, S: Store> {
    pub(super) event_loop: &'c Rc<EventLoop<S>>,
    pub(super) link: &'c Rc<Link>,
    /// How long it has waited until this node was ready.
    pub(super) waited_ms: u64,
}

impl<S: Store> Call<'_, S> {
    fn reply(&self, route: Route, request: Request) -> Result<Reply, Refusal> {
        match route {
            Route::Get | Route::Head | Route::Put | Route::Delete => self.entity(route, request),
            Route::Range => range::range(self, &request),
            Route::Status => status::status(self),
            Route::Cluster => cluster::cluster(self),
            Route::Peer => cluster::peer(self, &request),
            Route::Repair => cluster::repair(self),
            Route::Metrics => Ok(status::metrics(self)),
            Route::Profile => profile::profile(self, &request.uri),
        }
    }

    /// A request for one entity. What is wrong with it is told before anything is waited for.
    fn entity(&self, route: Route, request: Request) -> Result<Reply, Refusal> {
        let nodes = self.event_loop.node.config.nodes();
        let target = EntityTarget::parse(request.uri, nodes).map_err(Refusal::bad_request)?;
        let bytes = if route == Route::Put { put::value_bytes(request.body)? } else { 0 };
        self.once_it_may_coordinate(move |call| match route {
            Route::Put => put::put(call, target, bytes),
            Route::Delete => entity::delete(call, target),
            _ => entity::get(call, route, &target),
        })
    }

    /// Serves a request at once, or, where this node has still to hear whether it lost anything, once it has.
    pub(super) fn once_it_may_coordinate(
        &self,
        serve: impl FnOnce(&Call<'_, S>) -> Result<Reply, Refusal> + 'static,
    ) -> Result<Reply, Refusal> {
        let cluster = self.event_loop.node.cluster.as_ref();
        let settled = cluster.and_then(|cluster| cluster.settled.get());
        if settled.is_none_or(|settled| settled.may_coordinate()) {
            return serve(self);
        }
        self.store()?;
        let (event_loop, link) = (Rc::clone(self.event_loop), Rc::clone(self.link));
        Ok(Reply::later(async move {
            let waited_ms = until_it_may_coordinate(&event_loop, &link).await?;
            let call = Call { event_loop: &event_loop, link: &link, waited_ms };
            Ok(serve(&call)?.outcome().await)
        }))
    }

    /// The store, unless the node does not serve.
    pub(super) fn store(&self) -> Result<Rc<S::Local>, Refusal> {
        if self.event_loop.core.is_draining() {
            return Err(Refusal::draining());
        }
        self.event_loop.store().ok_or_else(|| Refusal::unavailable("the node is opening its data directory"))
    }
}
