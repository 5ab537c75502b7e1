//! A node whose writes something conditional goes over, as in a cluster.

use ladoga_env::sim;
use ladoga_runtime::Supervisor;
use ladoga_service::Precondition;
use ladoga_storage::Durability;
use tokio::runtime::{Builder, LocalOptions};

use super::tests::{Lone, context};
use super::*;
use crate::LoneVersions;

/// A node of a cluster over which another one decides.
#[derive(Clone)]
struct PassedOver(Arc<LoneVersions>);

impl Admission for PassedOver {
    type Admitted = ();

    fn stamp(&self) -> Stamp {
        self.0.stamp()
    }

    fn time_ms(&self) -> u64 {
        self.0.time_ms()
    }

    fn given_up_to_ms(&self) -> u64 {
        self.0.given_up_to_ms()
    }

    async fn admit(&self, stamp: Stamp) -> Result<(), Error> {
        self.0.admit(stamp).await
    }

    fn acknowledge(&self, key: &[u8], version: Version) -> Result<(), Error> {
        assert!(key == b"key" && version.timestamp > 0);
        Err(Error::Undecided)
    }

    fn stamp_of_update(&self, key: &[u8]) -> Result<impl FnOnce() -> Stamp + Send + 'static, Error> {
        self.0.stamp_of_update(key)
    }
}

/// It was acknowledged once it was applied, whatever had gone over it by then.
#[test]
fn a_write_that_something_conditional_went_over_is_not_acknowledged() {
    let (env, _disk, _clock) = sim::env(1);
    let lone = Lone::open(&env, Durability::Always);
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let local = Rc::new(lone.store.attach(&Supervisor::default()));
        let service = OneNode::new(Arc::clone(&lone.store), local, PassedOver(Arc::clone(&lone.versions)));
        let put = service.put(&context(Precondition::None), b"key", Bytes::from_static(b"value"), ()).await;
        assert!(matches!(put, Err(Error::Undecided)), "{put:?}");
        let deleted = service.delete(&context(Precondition::None), b"key").await;
        assert!(matches!(deleted, Err(Error::Undecided)), "{deleted:?}");
    });
}
