use std::future::{Future, ready};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_cluster::Refusal;
use ladoga_model::{Cell, Stamp, Ttl, Version};
use ladoga_service::{
    BackupAnswer, BackupStep, ChangeFormat, Context, Error, Followed, Follower, KeyRange, KeyValue, KeyWrite,
    Later, Lookup, Metric, Pieces, Precondition, RecordFormat, Scope, StoreError, StoredCell, Together,
    Upload,
};

use super::alone::AloneInCluster;
use super::backup::Before;
use super::conditional::{admit, expire, increment, write_if, write_uploaded_if};
use super::fenced::{read, write};
use super::fetch::open_found;
use super::merge::merge;
use super::obstacles::obstacles_of;
use super::plan::Plan;
use super::spread::{Spread, spread};
use super::starting::until_it_may_coordinate;
use super::target::Target;
use crate::own::OwnReplica;
use crate::planted::{note_time, note_version, noted_time};
use ladoga_local::OneNode;
use ladoga_local::store::{LocalStore, Store};

/// How often a large value is looked up again, if it was replaced before it could be opened.
const GET_OPENS_MAX: usize = 3;
/// The length of a value from which on it is asked for the precondition of its write before it is read: that takes a round trip,
/// while a shorter one comes with its head, most likely.
const ADMITTED_BYTES_MIN: u64 = 8 << 10;

/// The service of a node of a cluster: it coordinates what several nodes have to answer, and answers the rest itself.
pub struct Replicated<S: Store> {
    replica: Rc<OwnReplica<S>>,
    own: Rc<OneNode<S, AloneInCluster>>,
}

/// Which nodes have to answer: this node alone, or those of a plan.
enum By<A, P> {
    Alone(A),
    Plan(P),
}

impl<S: Store> Replicated<S> {
    /// Of this replica.
    pub fn new(replica: Rc<OwnReplica<S>>) -> Replicated<S> {
        let OwnReplica { shared, store, cluster, .. } = &*replica;
        let own = OneNode::new(Arc::clone(shared), Rc::clone(store), AloneInCluster(Arc::clone(cluster)));
        Replicated { replica, own: Rc::new(own) }
    }

    /// The replica, for peers and background work.
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

    fn fetch_ahead(&self, keys: &[&[u8]]) {
        self.own.fetch_ahead(keys);
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
        let precondition = context.precondition.clone();
        let by = match Plan::of(&self.replica, context, key.as_ref()) {
            Some(plan) => By::Plan((plan, value, room)),
            None => By::Alone(self.own.put(context, key, value, room)),
        };
        async move {
            match by {
                By::Alone(written) => written.await,
                By::Plan((plan, value, room)) => {
                    let written = write_or_decide(plan, precondition, Some(value)).await;
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
        let precondition = context.precondition.clone();
        let by = match Plan::of(&self.replica, context, key.as_ref()) {
            Some(plan) => By::Plan(plan.of_deletion()),
            None => By::Alone(self.own.delete(context, key)),
        };
        async move {
            match by {
                By::Alone(written) => written.await,
                By::Plan(plan) => write_or_decide(plan, precondition, None).await,
            }
        }
    }

    fn admit_conditional(
        &self,
        context: &Context,
        key: &[u8],
        value_bytes: u64,
    ) -> impl Future<Output = Result<(), Error>> + use<S> + 'static {
        let is_asked = value_bytes >= ADMITTED_BYTES_MIN && !context.precondition.is_none();
        let asked = is_asked.then(|| {
            let plan = Plan::of_conditional(&self.replica, context, key);
            (plan, context.precondition.clone())
        });
        async move {
            let Some((plan, precondition)) = asked else { return Ok(()) };
            admit(plan, precondition).await
        }
    }

    fn increment<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        by: i64,
    ) -> impl Future<Output = Result<(i64, Stamp), Error>> + use<S, K> + 'static {
        let plan = Plan::of_conditional(&self.replica, context, key.as_ref());
        increment(plan, context.precondition.clone(), by)
    }

    fn expire<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        ttl: Option<Ttl>,
    ) -> impl Future<Output = Result<Stamp, Error>> + use<S, K> + 'static {
        let context = Context { ttl, ..context.clone() };
        let plan = Plan::of_conditional(&self.replica, &context, key.as_ref());
        expire(plan, context.precondition)
    }

    fn admit_together(&self) -> Result<(), Error> {
        Err(Error::NotTogether)
    }

    fn write_together(&self, _: &Context, _: Vec<KeyWrite>) -> Later<Result<Together, Error>> {
        Box::pin(ready(Err(Error::NotTogether)))
    }

    fn upload_bytes_min(&self) -> u64 {
        self.own.upload_bytes_min()
    }

    fn upload(
        &self,
        context: &Context,
        key: &[u8],
    ) -> impl Future<Output = Result<ReplicatedUpload<S>, Error>> + use<S> + 'static {
        // A precondition may come with the write, and need not be known yet.
        let context = Context { precondition: Precondition::None, ..context.clone() };
        let by = match Plan::of(&self.replica, &context, key) {
            Some(plan) => By::Plan(plan),
            None => By::Alone(self.own.upload(&context, key)),
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
        let (context, own) = (context.clone(), Rc::clone(&self.own));
        let by = match value.0 {
            By::Plan(spread) => By::Plan(spread.with(&context)),
            By::Alone(upload) if context.precondition.is_none() => By::Alone(upload.finish()),
            // That is decided by a plan, also if this node is the only one.
            By::Alone(upload) => {
                let plan = Plan::of_conditional(&self.replica, &context, key.as_ref());
                By::Plan(Spread { plan, targets: vec![Ok(Target::Local(upload))] })
            }
        };
        async move {
            match by {
                By::Alone(finished) => own.put_uploaded(&context, key, finished.await?).await,
                By::Plan(spread) if context.precondition.is_none() => spread.commit().await,
                By::Plan(spread) => Box::pin(write_uploaded_if(spread, context.precondition)).await,
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

    fn follow(
        &self,
        followed: Followed,
        format: Box<dyn ChangeFormat>,
    ) -> Later<Result<Box<dyn Follower>, Error>> {
        match self.replica.cluster.stability().vouches() {
            Ok(true) => self.own.follow(followed, format),
            Ok(false) => Box::pin(ready(Err(not_vouched(&Refusal::Rebuilding)))),
            Err(refusal) => Box::pin(ready(Err(not_vouched(&refusal)))),
        }
    }

    fn backup(&self, step: BackupStep) -> Later<Result<BackupAnswer, Error>> {
        let cluster = Arc::clone(&self.replica.cluster);
        let before = Before::of(cluster.stability());
        let answered = self.own.backup(step);
        Box::pin(async move {
            let mut answer = answered.await?;
            before.add_to(&mut answer, &cluster);
            Ok(answer)
        })
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

/// This node cannot tell what changes: it may lack some of what it acknowledged.
fn not_vouched(refusal: &Refusal) -> Error {
    Error::NotVouched {
        reason: format!("this node cannot tell changes now: {refusal}; follow those of another node"),
    }
}

/// Stores a value, or deletes: in one round trip, or in two if that depends on what is there.
async fn write_or_decide<S: Store>(
    plan: Plan<S>,
    precondition: Precondition,
    value: Option<Bytes>,
) -> Result<Version, Error> {
    if precondition.is_none() {
        return write(plan, value).await;
    }
    // Apart, so that a plain write need not carry what the other one needs.
    Box::pin(write_if(plan, precondition, value)).await
}

/// Reads the newest cell from the nodes of its key, which may be a deletion.
async fn get<S: Store>(plan: Plan<S>) -> Result<Option<StoredCell>, Error> {
    for _ in 0..GET_OPENS_MAX {
        let Some(cell) = read(&plan).await? else {
            note_version(None);
            note_time(None);
            return Ok(None);
        };
        let is_deletion = cell.value.is_none();
        let Cell { stamp, value } = plan.as_of_now(cell).await?;
        let time_ms = noted_time();
        let value = match value {
            None => None,
            Some(found) => match open_found(&plan, stamp.version, found).await? {
                None => continue,
                opened => opened,
            },
        };
        note_version((!is_deletion).then_some(stamp.version));
        note_time(time_ms);
        return Ok(Some(Cell { stamp, value }));
    }
    Err(Error::Contended("the value is replaced faster than it can be read"))
}

type OwnUpload<S> = <<S as Store>::Local as LocalStore>::Upload;

/// A large value on its way to those who have to answer.
pub struct ReplicatedUpload<S: Store>(By<OwnUpload<S>, Spread<S>>);

/// The same, all of which has arrived.
pub struct FinishedUpload<S: Store>(By<OwnUpload<S>, Spread<S>>);

impl<S: Store> Upload for ReplicatedUpload<S> {
    type Finished = FinishedUpload<S>;

    fn write(self, bytes: Bytes) -> Later<Result<ReplicatedUpload<S>, StoreError>> {
        let by = match self.0 {
            By::Alone(upload) => By::Alone(upload.write(bytes)),
            By::Plan(spread) => By::Plan(spread.write(bytes)),
        };
        Box::pin(async move {
            Ok(ReplicatedUpload(match by {
                By::Alone(upload) => By::Alone(upload.await?),
                By::Plan(spread) => By::Plan(spread.await),
            }))
        })
    }

    fn finish(self) -> Later<Result<FinishedUpload<S>, StoreError>> {
        Box::pin(ready(Ok(FinishedUpload(self.0))))
    }
}
