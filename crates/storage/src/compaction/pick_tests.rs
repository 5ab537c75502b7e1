use super::*;

const CONFIG: PickConfig =
    PickConfig { level_1_bytes: 1000, room_bytes: u64::MAX, overlap_bytes_max: u64::MAX };

fn table(number: u64, smallest: &str, largest: &str, disk_bytes: u64) -> TableView {
    TableView {
        number,
        smallest: smallest.as_bytes().into(),
        largest: largest.as_bytes().into(),
        file_bytes: disk_bytes,
        disk_bytes,
        records: 10,
        tombstones: 0,
        oldest: Version { timestamp: number, node: 0 },
        newest: Version { timestamp: number, node: 0 },
        droppable: true,
        expired_bytes: 0,
        damaged: false,
    }
}

fn levels(of: &[(usize, TableView)]) -> [Vec<TableView>; LEVELS] {
    let mut levels: [Vec<TableView>; LEVELS] = std::array::from_fn(|_| Vec::new());
    of.iter().for_each(|(level, table)| levels[*level].push(table.clone()));
    levels
}

#[test]
fn nothing_to_do_is_no_choice() {
    assert_eq!(pick(&levels(&[]), CONFIG), None);
    assert_eq!(pick(&levels(&[(0, table(1, "a", "b", 10)), (1, table(2, "a", "z", 900))]), CONFIG), None);
}

#[test]
fn level_0_goes_down_with_everything_below_it_that_it_overlaps() {
    let mut given: Vec<_> = (5..9).map(|number| (0, table(number, "d", "k", 10))).collect();
    given.extend([(1, table(1, "a", "c", 10)), (1, table(2, "c1", "e", 10)), (1, table(3, "k", "z", 10))]);
    let choice = pick(&levels(&given), CONFIG).expect("four tables");
    assert_eq!(choice.inputs, [5, 6, 7, 8, 2, 3]);
    assert_eq!((choice.level, choice.output_level, choice.only_move), (0, 1, false));
}

#[test]
fn tables_that_overlap_nothing_are_moved_unless_they_have_tombstones() {
    let mut given: Vec<_> = (1..5).map(|n| (0, table(n, &format!("{n}a"), &format!("{n}z"), 10))).collect();
    assert!(pick(&levels(&given), CONFIG).expect("four tables").only_move);
    given[2].1.tombstones = 1;
    assert!(!pick(&levels(&given), CONFIG).expect("four tables").only_move);
}

/// It would come down to where the next compaction of it takes all of that along.
#[test]
fn a_table_above_much_of_the_level_below_is_not_moved_there() {
    let mut given = vec![(1, table(1, "a", "z", 2000)), (3, table(2, "a", "c", 500))];
    let only_move = |given: &[_], overlap_bytes_max| {
        pick(&levels(given), PickConfig { overlap_bytes_max, ..CONFIG }).expect("over its size").only_move
    };
    assert!(only_move(&given, 0), "it would come to one again");
    given.push((3, table(3, "d", "f", 60)));
    assert!(only_move(&given, 500) && !only_move(&given, 499));
}

#[test]
fn an_oversized_level_gives_up_the_table_with_the_least_below_it() {
    let given = levels(&[
        (1, table(1, "a", "c", 600)),
        (1, table(2, "d", "f", 600)),
        (2, table(3, "a", "c", 500)),
        (2, table(4, "e", "e", 50)),
    ]);
    assert_eq!(pick(&given, CONFIG).expect("over its size").inputs, [2, 4]);
}

#[test]
fn tombstones_weigh_what_they_are_likely_to_hide() {
    let mut dead = table(1, "a", "c", 100);
    dead.tombstones = 10;
    let given = |dead: &TableView| levels(&[(1, dead.clone()), (2, table(2, "a", "z", 9000))]);
    assert_eq!(pick(&given(&dead), CONFIG).expect("over its size").inputs, [1, 2]);
}

#[test]
fn a_table_of_tombstones_goes_down_once_they_may_go() {
    let mut dead = table(1, "a", "c", 1);
    dead.tombstones = 6;
    let given = |dead: &TableView| levels(&[(1, dead.clone()), (2, table(2, "a", "z", 10))]);
    assert_eq!(pick(&given(&dead), CONFIG).expect("mostly tombstones").inputs, [1, 2]);
    dead.droppable = false;
    assert_eq!(pick(&given(&dead), CONFIG), None);
}

/// The others went down instead, one after the other until they were in the last level: their rewriting costs the least.
#[test]
fn a_table_of_tombstones_goes_down_before_those_that_live() {
    let mut dead = table(9, "k", "m", 1);
    dead.tombstones = 6;
    let given =
        |bytes| levels(&[(1, table(1, "a", "c", bytes)), (1, dead.clone()), (2, table(2, "l", "l", 10))]);
    for bytes in [10, 2000] {
        assert_eq!(pick(&given(bytes), CONFIG).expect("mostly tombstones").inputs, [9, 2], "{bytes} bytes");
    }
    let full = PickConfig { room_bytes: 10, ..CONFIG };
    assert_eq!(pick(&given(10), full), None, "the other is not in its place");
}

/// Nothing comes to it from above if its keys are old, as with those that begin with a time: so its deletions stayed for ever.
#[test]
fn a_table_of_tombstones_in_the_last_level_is_written_anew_by_itself() {
    let mut dead = table(5, "d", "k", 100);
    dead.tombstones = 6;
    let with = |level, other: TableView| levels(&[(6, dead.clone()), (level, other)]);
    let choice = pick(&levels(&[(6, dead.clone())]), CONFIG).expect("mostly tombstones");
    assert_eq!((choice.inputs, choice.level, choice.output_level, choice.only_move), (vec![5], 6, 6, false));
    for level in [0, 1, 5] {
        assert_eq!(
            pick(&with(level, table(4, "a", "d", 10)), CONFIG),
            None,
            "level {level}: they may hide it"
        );
        assert!(pick(&with(level, table(6, "a", "d", 10)), CONFIG).is_some(), "level {level}: it is newer");
        assert!(pick(&with(level, table(4, "a", "c", 10)), CONFIG).is_some(), "level {level}: elsewhere");
    }
    let full = PickConfig { room_bytes: 99, ..CONFIG };
    assert_eq!(pick(&levels(&[(6, dead.clone())]), full), None, "there is no room");
    dead.droppable = false;
    assert_eq!(pick(&levels(&[(6, dead)]), CONFIG), None);
}

#[test]
fn a_table_that_is_mostly_expired_is_written_anew_by_itself_the_most_first() {
    let expired = |number, smallest: &str, largest: &str, expired_bytes| TableView {
        expired_bytes,
        ..table(number, smallest, largest, 100)
    };
    let tables = [
        (0, expired(9, "a", "z", 40)),
        (1, expired(1, "a", "c", 0)),
        (1, expired(2, "d", "f", 50)),
        (3, expired(3, "a", "c", 90)),
    ];
    let choice = pick(&levels(&tables), CONFIG).expect("mostly expired");
    assert_eq!((choice.inputs, choice.level, choice.output_level, choice.only_move), (vec![3], 3, 3, false));
    assert_eq!(pick(&levels(&tables[..3]), CONFIG).expect("half of it").inputs, [2]);
    assert_eq!(pick(&levels(&tables[1..2]), CONFIG), None, "too little of it");
    let full = PickConfig { room_bytes: 99, ..CONFIG };
    assert_eq!(pick(&levels(&tables), full), None, "there is no room");
    // Writers wait for level 0.
    let mut behind = tables.to_vec();
    behind.extend((20..28).map(|number| (0, table(number, "d", "k", 10))));
    assert_eq!(pick(&levels(&behind), CONFIG).expect("level 0 is behind").level, 0);
    // Nobody waits for those that are set aside there.
    behind.iter_mut().filter(|(_, table)| table.number >= 20).for_each(|(_, table)| table.damaged = true);
    assert_eq!(pick(&levels(&behind), CONFIG).expect("mostly expired").inputs, [3]);
}

#[test]
fn a_disk_with_little_room_gets_a_smaller_compaction_or_none() {
    let mut given: Vec<_> = (5..9).map(|number| (0, table(number, "d", "k", 10))).collect();
    given.push((1, table(1, "a", "e", 20)));
    let within = |room_bytes| pick(&levels(&given), PickConfig { room_bytes, ..CONFIG });
    assert_eq!(within(60).expect("room for all").inputs, [5, 6, 7, 8, 1]);
    assert_eq!(within(59).expect("room for three").inputs, [5, 6, 7, 1]);
    assert_eq!(within(30).expect("room for one").inputs, [5, 1]);
    assert_eq!(within(29), None);
}

#[test]
fn what_newer_tombstones_hide_is_trimmed_once_the_most_first() {
    let mut dead = table(9, "c", "k", 1);
    dead.tombstones = 6;
    let given = levels(&[
        (0, dead),
        (1, table(1, "a", "b", 500)),
        (1, table(2, "d", "e", 70)),
        (1, table(3, "f", "g", 80)),
        (1, table(10, "h", "k", 900)),
    ]);
    let mut trimmed = BTreeMap::new();
    let mut next = |room_bytes| {
        let (choice, up_to) = pick_to_trim(&given, &trimmed, room_bytes)?;
        trimmed.insert(choice.inputs[0], up_to);
        Some((choice.level, choice.output_level, choice.inputs))
    };
    assert_eq!(next(80), Some((1, 1, vec![3])));
    assert_eq!(next(69), None, "there is no room");
    assert_eq!(next(80), Some((1, 1, vec![2])));
    assert_eq!(next(80), None, "the others are newer, or elsewhere");
}

#[test]
fn a_damaged_table_stays_and_blocks_only_what_overlaps_it() {
    let mut broken = table(3, "a", "c", 10);
    broken.damaged = true;
    let given = levels(&[(1, table(1, "a", "c", 900)), (1, table(2, "d", "f", 900)), (2, broken)]);
    assert_eq!(pick(&given, CONFIG).expect("the other").inputs, [2]);
}
