/// Whether an error of the system with this number means that the process, or the system, has too many open files. Then nothing
/// was done, and it will work once others are closed.
pub const fn is_out_of_descriptors(code: Option<i32>) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(code, Some(ENFILE | EMFILE))
}
