use clap::Args;
use ladoga_model::Durability;

fn parse_fsync(text: &str) -> Result<Durability, String> {
    Durability::parse(text.as_bytes()).ok_or_else(|| format!("expected {}", Durability::WORDS))
}

/// What every command that writes may ask for.
#[derive(Debug, Args)]
pub(crate) struct WriteArguments {
    /// When the write is on disk: always (before the command ends), everysec (within a second) or never (when the operating
    /// system decides) [default: as --fsync of the node says]
    #[arg(long, value_name = "WHEN", value_parser = parse_fsync)]
    pub(crate) fsync: Option<Durability>,
}
