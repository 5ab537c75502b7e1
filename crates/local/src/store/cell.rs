use ladoga_model::Stamp;

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// It gets a value.
    Put,
    /// It loses its value.
    Delete,
}

/// What a cell holds; `F` is a finished upload.
#[derive(Debug)]
pub enum CellValue<'c, F> {
    /// A value in memory, shorter than what has to be uploaded.
    Bytes(&'c [u8]),
    /// A value that was uploaded.
    Uploaded(F),
    /// A deletion.
    Tombstone,
}

/// A key, what it holds, and the version that decides which of its cells wins.
#[derive(Debug)]
pub struct Cell<'c, F> {
    /// 1 to [`ladoga_model::KEY_BYTES_MAX`] bytes.
    pub key: &'c [u8],
    /// Its version.
    pub stamp: Stamp,
    /// What it holds.
    pub value: CellValue<'c, F>,
}
