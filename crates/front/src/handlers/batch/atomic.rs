use bytes::Bytes;
use ladoga_http1::StatusCode;
use ladoga_service::{Context, KeyChange, KeyValue, KeyWrite, NotWritten};

use super::super::value::Room;
use super::audited::BatchAudit;
use super::operation::{check_line, count_line, written_answer};
use crate::auth::{Caller, PendingLine};
use crate::connection::{Core, Link};
use crate::http::{
    Answer, BatchAction, BatchOperation, CutLine, LINE_BYTES_MAX, LineAnswer, LineCutter, NDJSON, Refusal,
};
use crate::slow::waiting_ns;

/// Operations that can happen all or none.
const OPERATIONS_MAX: usize = 1_000;
/// The longest body of them: it is held in memory.
const BODY_BYTES_MAX: u64 = LINE_BYTES_MAX as u64;

/// Refuses a body that is longer than may be.
pub(super) fn check_length(bytes: u64) -> Result<(), Refusal> {
    if bytes <= BODY_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::batch_too_large(format_args!(
        "the body of an atomic batch has at least {bytes} bytes, and at most {BODY_BYTES_MAX} can happen all or nothing; send less \
         at a time, or without atomic=true"
    )))
}

/// Reads all lines, carries them out if each is an operation, and answers them.
pub(super) async fn carry_out<K: KeyValue>(
    service: &K,
    context: &Context,
    (core, link): (&Core, &Link),
    audit: Option<&BatchAudit>,
) -> Result<Answer, Refusal> {
    let mut room = Room::new(core, link);
    let (read, waited_ns) = waiting_ns(&*core.clock, read_lines(link, &mut room)).await;
    // What it waited for room while it was read was counted as that.
    link.asked.waited(|waits| waits.body_ns = waited_ns.saturating_sub(waits.admission_ns));
    let lines = read?;
    let mut audited = Vec::new();
    let admitted = Admitted { core, caller: link.caller().map(|caller| caller.clone()), audit };
    if let Some(caller) = &admitted.caller {
        // The first was paid for with the batch.
        caller.charge_requests(core.clock.monotonic_ns(), (lines.len() as u64).saturating_sub(1));
    }
    let writes = match writes_of(lines, service.upload_bytes_min(), &admitted, &mut audited) {
        Ok(writes) => writes,
        Err(answers) => return Ok(not_written(answers, audited)),
    };
    if writes.is_empty() {
        return Ok(answer(StatusCode::OK, &[]));
    }
    let successes: Vec<StatusCode> = writes.iter().map(|write| success_status(&write.change)).collect();
    let written = service.write_together(context, writes).await;
    drop(room);
    match written {
        Ok(Ok(written)) => {
            end_all(audited, StatusCode::OK);
            let lines = written.iter().zip(successes).map(|(written, status)| match written.sum {
                Some(sum) => LineAnswer::sum(written.stamp, sum),
                None => written_answer(status, written.stamp.version),
            });
            Ok(answer(StatusCode::OK, &lines.collect::<Vec<_>>()))
        }
        Ok(Err(NotWritten { index, error })) => {
            let mut answers: KnownAnswers = successes.iter().map(|_| None).collect();
            answers[index] = Some(Refusal::from(error).into());
            Ok(not_written(answers, audited))
        }
        Err(error) => {
            // Whether they happened, nobody may know.
            let refusal = Refusal::from(error);
            end_all(audited, refusal.status());
            Err(refusal)
        }
    }
}

/// Reads the body, which is held in memory until it is carried out. If it does not come whole, nothing happens.
async fn read_lines(link: &Link, room: &mut Room<'_>) -> Result<Vec<CutLine>, Refusal> {
    let (mut cutter, mut lines) = (LineCutter::new(LINE_BYTES_MAX), Vec::new());
    let (mut bytes, mut held) = (0, 0);
    link.body_begins();
    while let Some(piece) = room.next_piece().await? {
        bytes += piece.len() as u64;
        check_length(bytes).map_err(Refusal::and_close)?;
        if bytes > held {
            held = bytes.max(2 * held).min(BODY_BYTES_MAX);
            room.hold(held, bytes, BODY_BYTES_MAX).await?;
        }
        // A copy: else the line would keep all that came with it.
        cutter.push(Bytes::copy_from_slice(&piece));
        while let Some(line) = cutter.next_line() {
            add_line(&mut lines, line)?;
        }
    }
    room.mark_complete();
    if let Some(line) = cutter.last_line() {
        add_line(&mut lines, line)?;
    }
    Ok(lines)
}

fn add_line(lines: &mut Vec<CutLine>, line: CutLine) -> Result<(), Refusal> {
    if matches!(&line, CutLine::Whole(line) if line.trim_ascii().is_empty()) {
        return Ok(());
    }
    if lines.len() == OPERATIONS_MAX {
        let reason = format_args!(
            "the batch has more than {OPERATIONS_MAX} operations, which is as many as can happen all or nothing; send fewer at a \
             time, or without atomic=true"
        );
        return Err(Refusal::batch_too_large(reason).and_close());
    }
    lines.push(line);
    Ok(())
}

/// The answer to each line, if it is known before anything is carried out.
type KnownAnswers = Vec<Option<LineAnswer>>;

/// What the audit log has of each line, if anything.
type AuditedLines = Vec<Option<PendingLine>>;

fn end_all(audited: AuditedLines, status: StatusCode) {
    audited.into_iter().flatten().for_each(|line| line.end(status.as_str()));
}

/// Whose lines they are, and what the audit log has of them.
struct Admitted<'a> {
    core: &'a Core,
    caller: Option<Caller>,
    audit: Option<&'a BatchAudit>,
}

fn writes_of(
    lines: Vec<CutLine>,
    upload_bytes_min: u64,
    admitted: &Admitted<'_>,
    audited: &mut AuditedLines,
) -> Result<Vec<KeyWrite>, KnownAnswers> {
    let count = lines.len();
    let (mut writes, mut answers) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for line in lines {
        let mut of_line = None;
        let write = write_of(line, upload_bytes_min, admitted, &mut of_line);
        audited.push(of_line);
        match write {
            Ok(write) => {
                writes.push(write);
                answers.push(None);
            }
            Err(refusal) => answers.push(Some(LineAnswer::from(refusal))),
        }
    }
    if writes.len() == count { Ok(writes) } else { Err(answers) }
}

fn write_of(
    line: CutLine,
    upload_bytes_min: u64,
    admitted: &Admitted<'_>,
    audited: &mut Option<PendingLine>,
) -> Result<KeyWrite, Refusal> {
    let CutLine::Whole(line) = line else { unreachable!("a line that is too long is in a body that is") };
    let operation = BatchOperation::parse(&line).map_err(Refusal::bad_request)?;
    *audited = admitted.audit.and_then(|audit| audit.begin(&operation));
    admitted.caller.as_ref().map_or(Ok(()), |caller| check_line(caller, &operation))?;
    count_line(admitted.core, &operation);
    let BatchOperation { key, action } = operation;
    let (precondition, change) = match action {
        // What is kept outside of memory has no place in one update of several keys.
        BatchAction::Put { value, .. } if value.len() as u64 >= upload_bytes_min => {
            let reason = format_args!(
                "the value has {} bytes; a batch with atomic=true takes values of less than {upload_bytes_min}; send it without \
                 atomic=true",
                value.len()
            );
            return Err(Refusal::batch_too_large(reason));
        }
        BatchAction::Put { value, ttl, precondition } => (precondition, KeyChange::Put(value, ttl)),
        BatchAction::Delete(precondition) => (precondition, KeyChange::Delete),
        BatchAction::Increment { by, precondition } => (precondition, KeyChange::Increment(by)),
        BatchAction::Get(_) => {
            let reason = "op is get, expected put, delete or increment: a batch with atomic=true only writes";
            return Err(Refusal::bad_request(reason));
        }
    };
    Ok(KeyWrite { key, precondition, change })
}

/// The status of a line that is carried out.
const fn success_status(change: &KeyChange) -> StatusCode {
    match change {
        KeyChange::Put(..) => StatusCode::CREATED,
        KeyChange::Delete => StatusCode::ACCEPTED,
        KeyChange::Increment(_) => StatusCode::OK,
    }
}

/// Nothing was written. The answer has the status of the first line that says why, and of the others that they depend on it.
fn not_written(answers: KnownAnswers, audited: AuditedLines) -> Answer {
    let first = answers.iter().flatten().next().map_or(StatusCode::BAD_REQUEST, LineAnswer::status);
    let lines = answers.into_iter().map(|known| {
        known.unwrap_or_else(|| {
            LineAnswer::dependent("not carried out, because another line of the batch was not")
        })
    });
    let lines = lines.collect::<Vec<_>>();
    for (line, audited) in lines.iter().zip(audited) {
        audited.into_iter().for_each(|audited| audited.end(line.status().as_str()));
    }
    answer(first, &lines)
}

fn answer(status: StatusCode, lines: &[LineAnswer]) -> Answer {
    let mut content = Vec::new();
    lines.iter().for_each(|line| line.write(&mut content));
    Answer { status, ..Answer::content(NDJSON, content) }
}
