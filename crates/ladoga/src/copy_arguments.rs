use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::tls_flags::ClientTlsFlags;
use crate::value_parsers::{key_parser, number, prefix_parser};

const COPY_HELP: &str = "\
Each URL is that of a node on its own, of any node of a cluster, or of a door to Cassandra. Values replace those that the target has under
the same keys; other keys of the target stay as they are.

What is copied: keys, values up to 64 MiB, and when values expire (by the clock of this machine: expect a difference of some
milliseconds). What is not: the API has no way to store a version, so each record gets a new ETag, and keys that were deleted are not
deleted in the target. Both sides use the number of replicas that their nodes use if a request says nothing.

The copy is no snapshot: a record that changes meanwhile is copied as it was before or after, and a change behind the place where the
copy is gets lost. Stop the writers, or copy twice and let nobody write during the second time. --verify tells whether both sides are
the same.

A side that is overloaded, restarts or cannot be reached any more is asked again, for as long as --patience says; one that cannot be
reached at the beginning is an error at once. With --resume FILE, the command
notes in FILE how far it is, once a second; after a break, the same command goes on from there. FILE is removed at the end.

With https://, --cacert, --cert and --key count for both sides.

Tokens are read from --from-token-file and --to-token-file, or LADOGA_FROM_TOKEN and LADOGA_TO_TOKEN, or LADOGA_TOKEN for both.

Examples:
  ladoga copy --from http://old:8080 --to http://new:8080
  ladoga copy --from http://old:8080 --to http://new:8080 --resume copy.state --verify
  ladoga copy --from http://old:8080 --to http://new:8080 --prefix user:
  ladoga copy --from http://old:8080 --to http://new:8080 --verify-only

Exit codes: 0 if all records are stored that have not expired, as durably as --fsync of the target says, and with --verify both sides are
the same; 1 if they are not, or a side cannot be asked any more (how far the copy went is printed); 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = COPY_HELP)]
pub(crate) struct CopyArguments {
    /// URL of a node that has the records
    #[arg(long, value_name = "URL")]
    pub(crate) from: String,
    /// URL of a node that is to have them
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// File with the token to show to the source [default: `LADOGA_FROM_TOKEN` or `LADOGA_TOKEN`, if set]
    #[arg(long, value_name = "FILE")]
    pub(crate) from_token_file: Option<PathBuf>,
    /// File with the token to show to the target [default: `LADOGA_TO_TOKEN` or `LADOGA_TOKEN`, if set]
    #[arg(long, value_name = "FILE")]
    pub(crate) to_token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: ClientTlsFlags,
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX", value_parser = prefix_parser())]
    pub(crate) prefix: Option<OsString>,
    /// Only keys behind this one, as the error of a copy that broke off says
    #[arg(long, value_name = "KEY", value_parser = key_parser())]
    pub(crate) after: Option<OsString>,
    /// File that says how far the copy is: go on from there if it exists; create it if not
    #[arg(long, value_name = "FILE", conflicts_with_all = ["after", "verify_only"])]
    pub(crate) resume: Option<PathBuf>,
    /// Then read both sides, and compare keys, values and when they expire
    #[arg(long)]
    pub(crate) verify: bool,
    /// Copy nothing, only compare
    #[arg(long)]
    pub(crate) verify_only: bool,
    /// Number of requests to the target at a time; each stores up to 512 records
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = number(1..=64_u8))]
    pub(crate) requests: u8,
    /// How many seconds to ask again while a side does not answer or has no capacity
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = number(0..=86_400_u32))]
    pub(crate) patience: u32,
}
