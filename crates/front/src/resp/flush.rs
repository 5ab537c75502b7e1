use bytes::Bytes;
use ladoga_resp::Request;
use ladoga_service::{KeyValue, Precondition};

use super::arguments::is;
use super::call::StoreCall;
use super::failed::Failed;
use super::scan::KeyReader;
use super::served::{CommandResult, Served};
use super::strings::all;

/// Keys that are looked up before they are deleted.
const STEP_KEYS: usize = 512;

/// `FLUSHALL` and `FLUSHDB`: deletes every key that there was when it began, as `DEL` would, in the order of the keys and some at a
/// time, so that nobody is held up. `ASYNC` makes no difference: the reply comes once everything is deleted.
pub(super) async fn flush<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    match request.get(1) {
        None => {}
        Some(mode) if request.len() == 2 && (is(mode, "SYNC") || is(mode, "ASYNC")) => {}
        Some(_) => return Err(Failed::syntax()),
    }
    if !call.door.settings.allows_flush {
        return Err(Failed::err(
            "deleting everything is not allowed; start the node with --resp-flush to allow it",
        ));
    }
    let mut after = None;
    loop {
        let keys = some_keys(&call, after.as_ref()).await?;
        let Some(last) = keys.last() else { return Ok(Served::OK) };
        after = Some(last.clone());
        all(keys, |key| call.delete(key, Precondition::None)).await?;
    }
}

/// The first keys behind this one. What reads them is gone before they are deleted: it would hold on to what there was.
async fn some_keys<K: KeyValue>(call: &StoreCall<K>, after: Option<&Bytes>) -> Result<Vec<Bytes>, Failed> {
    let mut reader = KeyReader::open(call, (None, after), Some(STEP_KEYS as u64)).await?;
    let mut keys = Vec::with_capacity(STEP_KEYS);
    while keys.len() < STEP_KEYS
        && let Some(key) = reader.next().await?
    {
        keys.push(key);
    }
    Ok(keys)
}
