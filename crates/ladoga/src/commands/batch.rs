use std::io::{BufWriter, Read, Write};

use super::lines::{Input, open};
use super::tally::{ProgressLine, Tally};
use super::{Failure, node_url, output_of_work};
use crate::batch_arguments::BatchArguments;
use crate::client::{NDJSON, Request, Response, Url};

/// The longest line that a node takes.
pub(super) const LINE_BYTES_MAX: usize = 512 << 10;
/// The longest body of operations that happen all or none.
const ATOMIC_BYTES_MAX: usize = 512 << 10;

/// Carries out operations, one a line, and prints the answer to each.
pub(crate) fn batch(arguments: &BatchArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let input = open(&arguments.file)?;
    if arguments.atomic {
        return atomic(&url, input);
    }
    let mut out = BufWriter::new(output_of_work());
    let is_watched = out.get_ref().is_terminal();
    let (mut tally, mut progress) = (Tally::default(), ProgressLine::of("operations"));
    let read = |response: Response| {
        if response.status != 200 {
            return Err(Failure::refused(response));
        }
        let answers = response.lines(|piece| {
            out.write_all(piece)?;
            if is_watched {
                out.flush()?;
            }
            tally.add(piece);
            progress.tell(tally.answers);
            Ok::<_, Failure>(())
        });
        out.flush()?;
        answers.map_err(|failure| after(failure, tally.answers))
    };
    let operations = Input::of(input).send_to(&url, "/v0/batch", read)?;
    drop(progress);
    let answers = tally.answers;
    if answers != operations {
        return Err(Failure::Failed(format!(
            "{url} answered {answers} of {operations} operations: it is unknown whether the others were carried out"
        )));
    }
    tally.outcome(|number| format!("number {number}"))
}

/// A failure, with how far it went before.
fn after(failure: Failure, answers: u64) -> Failure {
    match failure {
        Failure::Failed(reason) => Failure::Failed(format!(
            "{reason}; {} answered, and it is unknown which of the others were carried out",
            if answers == 1 { "1 operation was".to_owned() } else { format!("{answers} operations were") },
        )),
        failure => failure,
    }
}

fn atomic(url: &Url, input: Box<dyn Read + Send>) -> Result<(), Failure> {
    let mut body = Vec::new();
    input.take(ATOMIC_BYTES_MAX as u64 + 1).read_to_end(&mut body)?;
    if body.len() > ATOMIC_BYTES_MAX {
        let reason = format!("the operations take more than {ATOMIC_BYTES_MAX} bytes, the most for --atomic");
        return Err(Failure::Failed(reason));
    }
    let target = "/v0/batch?atomic=true".to_owned();
    let response =
        Request { method: "POST", target, fields: Vec::new(), body: Some(&body) }.send_in_time(url)?;
    // A refusal of the whole is a line of text.
    if response.status != 200 && !response.is_of_type(NDJSON) {
        return Err(Failure::refused(response));
    }
    let (status, mut out) = (response.status, output_of_work());
    response.lines(|piece| out.write_all(piece).map_err(Failure::from))?;
    out.flush()?;
    if status == 200 {
        return Ok(());
    }
    Err(Failure::Failed(format!("nothing was carried out: an operation has the status {status}")))
}
