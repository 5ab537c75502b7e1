use super::measured::Measured;
use super::table::find;

#[test]
fn how_long_a_command_takes_begins_with_its_last_byte() {
    let mut measured = Measured::of(find(b"SET").expect("a command"), 1_000);
    assert_eq!(measured.durations_ns(4_000), (3_000, 3_000), "it was whole at once");
    measured.note_arrival(5_000);
    assert_eq!(measured.durations_ns(7_000), (2_000, 6_000));
}
