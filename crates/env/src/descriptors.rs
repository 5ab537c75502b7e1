/// Whether an error of the system with this number says that the process, or the system, has as many files open as it may
/// have. Nothing was tried then: what needs one more works once others are closed.
pub const fn is_out_of_descriptors(code: Option<i32>) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(code, Some(ENFILE | EMFILE))
}
