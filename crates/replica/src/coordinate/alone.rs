use std::sync::Arc;

use ladoga_cluster::Origin;
use ladoga_local::Admission;
use ladoga_model::{Stamp, Version};
use ladoga_service::Error;

use super::plan::may_be_given;
use crate::cluster::Cluster;
use crate::stability::Admitted;

/// The writes that a node of a cluster has to answer alone.
#[derive(Clone)]
pub(super) struct AloneInCluster(pub(super) Arc<Cluster>);

impl Admission for AloneInCluster {
    type Admitted = Admitted;

    fn stamp(&self) -> Stamp {
        let cluster = &self.0;
        let stamp = Stamp::new(Version { timestamp: cluster.versions.next(), node: cluster.own.0 });
        Stamp { copies: 1, ..stamp }
    }

    fn time_ms(&self) -> u64 {
        self.0.versions.expiry_time_ms()
    }

    fn given_up_to_ms(&self) -> u64 {
        self.0.versions.given_up_to_ms()
    }

    async fn admit(&self, stamp: Stamp) -> Result<Admitted, Error> {
        may_be_given(&self.0, stamp).await?;
        let admitted = self.0.stability().admit(stamp.version, Origin::Client);
        admitted.map_err(|refusal| Error::NotVouched { reason: refusal.to_string() })
    }

    fn acknowledge(&self, key: &[u8], version: Version) -> Result<(), Error> {
        let is_passed_over = self.0.stability().past.may_be_passed_over(key, version);
        if is_passed_over { Err(Error::Undecided) } else { Ok(()) }
    }

    /// Conditional writes have plans, also those of keys that a node has alone: another one may coordinate one of the same key.
    fn stamp_of_update(&self, _: &[u8]) -> Result<impl FnOnce() -> Stamp + Send + 'static, Error> {
        let reason = "a node of a cluster does not decide alone about a conditional write".to_owned();
        Err::<fn() -> Stamp, _>(Error::NotVouched { reason })
    }
}
