use std::future::{Future, ready};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{Cell, Version};
use ladoga_service::{
    Context, Error, KeyRange, KeyValue, Later, Lookup, Metric, Pieces, RecordFormat, Scope, StoreError,
    StoredCell, Upload,
};

use super::fetch::open_found;
use super::merge::merge;
use super::obstacles::obstacles_of;
use super::plan::{AloneInCluster, NO_UPDATES, Plan};
use super::read::read;
use super::spread::{Spread, spread};
use super::starting::until_it_may_coordinate;
use super::write::write;
use crate::own::OwnReplica;
use crate::planted::note_version;
use ladoga_local::OneNode;
use ladoga_local::store::{LocalStore, Store};

/// How often a large value that was replaced before it could be opened is looked for again.
const OPENS_MAX: usize = 3;

/// The service of a node of a cluster: it coordinates what several nodes have to answer, and answers the rest itself.
pub struct Replicated<S: Store> {
    replica: Rc<OwnReplica<S>>,
    own: OneNode<S, AloneInCluster>,
}

/// Who has to answer: this node alone, or the nodes of a plan.
enum By<A, P> {
    Alone(A),
    Plan(P),
}

impl<S: Store> Replicated<S> {
    /// Of this replica.
    pub fn new(replica: Rc<OwnReplica<S>>) -> Replicated<S> {
        let OwnReplica { shared, store, cluster, .. } = &*replica;
        let own = OneNode::new(Arc::clone(shared), Rc::clone(store), AloneInCluster(Arc::clone(cluster)));
        Replicated { replica, own }
    }

    /// What peers and background work use of it.
    pub fn replica(&self) -> &Rc<OwnReplica<S>> {
        &self.replica
    }
}

impl<S: Store> KeyValue for Replicated<S> {
    type Upload = ReplicatedUpload<S>;

    fn until_ready(&self) -> Option<Later<Result<u64, Error>>> {
        if self.replica.cluster.stability().may_coordinate() {
            return None;
        }
        Some(Box::pin(until_it_may_coordinate(Rc::clone(&self.replica))))
    }

    fn get(
        &self,
        context: &Context,
        key: &[u8],
    ) -> Lookup<StoredCell, Error, impl Future<Output = Result<Option<StoredCell>, Error>> + use<S> + 'static>
    {
        let by = match Plan::of(&self.replica, context, key) {
            Some(plan) => By::Plan(plan),
            None => match self.own.get(context, key) {
                Lookup::Now(found) => return Lookup::Now(found),
                Lookup::Later(found) => By::Alone(found),
            },
        };
        Lookup::Later(async move {
            match by {
                By::Alone(found) => found.await,
                By::Plan(plan) => get(plan).await,
            }
        })
    }

    fn admit_put(&self, context: &Context, key: &[u8], value_bytes: u64) -> Result<(), Error> {
        // The replicas of a plan are asked with the value.
        if Plan::is_needed(&self.replica, context, key) {
            return Ok(());
        }
        self.own.admit_put(context, key, value_bytes)
    }

    fn put<K: AsRef<[u8]> + 'static, R: 'static>(
        &self,
        context: &Context,
        key: K,
        value: Bytes,
        room: R,
    ) -> impl Future<Output = Result<Version, Error>> + use<S, K, R> + 'static {
        let refused = refuse_conditions(context);
        let by = match Plan::of(&self.replica, context, key.as_ref()) {
            Some(plan) => By::Plan((plan, value, room)),
            None => By::Alone(self.own.put(context, key, value, room)),
        };
        async move {
            refused?;
            match by {
                By::Alone(written) => written.await,
                By::Plan((plan, value, room)) => {
                    let written = write(plan, Some(value)).await;
                    drop(room);
                    written
                }
            }
        }
    }

    fn delete<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
    ) -> impl Future<Output = Result<Version, Error>> + use<S, K> + 'static {
        let refused = refuse_conditions(context);
        let by = match Plan::of(&self.replica, context, key.as_ref()) {
            Some(plan) => By::Plan(plan),
            None => By::Alone(self.own.delete(context, key)),
        };
        async move {
            refused?;
            match by {
                By::Alone(written) => written.await,
                By::Plan(plan) => write(plan.of_deletion(), None).await,
            }
        }
    }

    fn admit_conditional(
        &self,
        context: &Context,
        _: &[u8],
    ) -> impl Future<Output = Result<(), Error>> + use<S> + 'static {
        ready(refuse_conditions(context))
    }

    fn increment<K: AsRef<[u8]> + 'static>(
        &self,
        _: &Context,
        _: K,
        _: i64,
    ) -> impl Future<Output = Result<(i64, Version), Error>> + use<S, K> + 'static {
        ready(Err(NO_UPDATES))
    }

    fn upload_bytes_min(&self) -> u64 {
        self.own.upload_bytes_min()
    }

    fn upload(
        &self,
        context: &Context,
        key: &[u8],
    ) -> impl Future<Output = Result<ReplicatedUpload<S>, Error>> + use<S> + 'static {
        let by = match Plan::of(&self.replica, context, key) {
            Some(plan) => By::Plan(plan),
            None => By::Alone(self.own.upload(context, key)),
        };
        async move {
            Ok(ReplicatedUpload(match by {
                By::Alone(upload) => By::Alone(upload.await?),
                By::Plan(plan) => By::Plan(spread(plan).await),
            }))
        }
    }

    fn put_uploaded<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        value: FinishedUpload<S>,
    ) -> impl Future<Output = Result<Version, Error>> + use<S, K> + 'static {
        let refused = refuse_conditions(context);
        let by = match value.0 {
            By::Plan(spread) => By::Plan(spread),
            By::Alone(value) => By::Alone(self.own.put_uploaded(context, key, value)),
        };
        async move {
            refused?;
            match by {
                By::Alone(written) => written.await,
                By::Plan(spread) => spread.commit().await,
            }
        }
    }

    fn range(
        &self,
        context: &Context,
        range: KeyRange,
        format: Box<dyn RecordFormat>,
    ) -> impl Future<Output = Result<Box<dyn Pieces>, Error>> + use<S> + 'static {
        let by = match range.scope {
            Scope::Cluster => By::Plan(merge(Rc::clone(&self.replica), context.clone(), range, format)),
            Scope::Node => By::Alone(self.own.range(context, range, format)),
        };
        async move {
            match by {
                By::Alone(pieces) => pieces.await,
                By::Plan(merged) => merged.await,
            }
        }
    }

    fn failure(&self) -> Option<String> {
        self.own.failure()
    }

    fn obstacles(&self) -> Vec<String> {
        let mut obstacles = self.own.obstacles();
        obstacles.extend(obstacles_of(&self.replica.cluster));
        obstacles
    }

    fn metrics(&self) -> Vec<Metric> {
        self.own.metrics()
    }
}

/// A conditional write that only one node decided would be wrong.
fn refuse_conditions(context: &Context) -> Result<(), Error> {
    if context.precondition.is_none() { Ok(()) } else { Err(NO_UPDATES) }
}

/// Reads the newest cell from the nodes of its key.
async fn get<S: Store>(plan: Plan<S>) -> Result<Option<StoredCell>, Error> {
    for _ in 0..OPENS_MAX {
        let Some(cell) = read(&plan).await? else {
            note_version(None);
            return Ok(None);
        };
        let Cell { stamp, value } = plan.as_of_now(cell).await?;
        let value = match value {
            None => None,
            Some(found) => match open_found(&plan, stamp.version, found).await? {
                None => continue,
                opened => opened,
            },
        };
        note_version(Some(stamp.version));
        return Ok(Some(Cell { stamp, value }));
    }
    Err(Error::Contended("the value is replaced faster than it can be read"))
}

type OwnUpload<S> = <<S as Store>::Local as LocalStore>::Upload;

/// A large value on its way to those who have to answer.
pub struct ReplicatedUpload<S: Store>(By<OwnUpload<S>, Spread<S>>);

/// The same, all of which has arrived.
pub struct FinishedUpload<S: Store>(By<<OwnUpload<S> as Upload>::Finished, Spread<S>>);

impl<S: Store> Upload for ReplicatedUpload<S> {
    type Finished = FinishedUpload<S>;

    fn write(self, bytes: Bytes) -> Later<Result<ReplicatedUpload<S>, StoreError>> {
        let by = match self.0 {
            By::Alone(upload) => By::Alone(upload.write(bytes)),
            By::Plan(spread) => By::Plan(spread.write(&bytes)),
        };
        Box::pin(async move {
            Ok(ReplicatedUpload(match by {
                By::Alone(upload) => By::Alone(upload.await?),
                By::Plan(spread) => By::Plan(spread.await),
            }))
        })
    }

    fn finish(self) -> Later<Result<FinishedUpload<S>, StoreError>> {
        let by = match self.0 {
            By::Alone(upload) => By::Alone(upload.finish()),
            By::Plan(spread) => By::Plan(spread),
        };
        Box::pin(async move {
            Ok(FinishedUpload(match by {
                By::Alone(finished) => By::Alone(finished.await?),
                By::Plan(spread) => By::Plan(spread),
            }))
        })
    }
}
