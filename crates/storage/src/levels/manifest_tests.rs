use ladoga_env::sim::{self, PowerCut, SimDisk};
use ladoga_model::Version;

use super::*;
use crate::frame::FRAME_HEADER_BYTES;
use crate::table::Expiries;

const DIR: &str = "/data";

#[test]
fn a_file_that_is_too_long_to_be_ours_is_not_read() {
    let (_, disk, _) = sim::env(1);
    let path = Path::new("/CURRENT");
    disk.open(path, OpenMode::CreateNew).expect("room").write_all_at(&[7; 65], 0).expect("room");
    assert_eq!(read_file(&disk, path, 65).expect("a file").len(), 65);
    let error = read_file(&disk, path, 64).expect_err("too long");
    assert_eq!(
        error.to_string(),
        "/CURRENT is corrupt at offset 64: file length: expected at most 64 bytes, found 65 bytes"
    );
    assert!(matches!(read_manifest(&disk, Path::new("/")), Err(Error::Corruption { .. })));
}

/// The state of a store with this many tables, each of which takes some 300 bytes of it.
fn everything(tables: u64) -> Edit {
    let table = |number: u64| {
        let key = |last: u8| [&number.to_be_bytes()[..], &[last; 100]].concat().into();
        let version = Version { timestamp: number, node: 1 };
        let meta = TableMeta {
            number,
            file_bytes: 4096,
            records: 3,
            tombstones: 0,
            blob_bytes: 0,
            newest: version,
            oldest: version,
            smallest: key(b'a'),
            largest: key(b'z'),
            blobs: Vec::new(),
            expiries: Expiries::default(),
        };
        (1, meta)
    };
    let added = (10..10 + tables).map(table).collect();
    let (next_file, first) = (Some(1_000), Some(5));
    Edit { next_file, first_wal: first, first_sequence: first, added, ..Edit::default() }
}

fn create(disk: &SimDisk, number: u64, tables: u64) -> Result<Manifest, Error> {
    let log = LogId { number, secret: Some(7) };
    Manifest::create(disk, Path::new(DIR), log, &everything(tables))
}

fn a_disk() -> SimDisk {
    let (_, disk, _) = sim::env(1);
    disk.create_dir_all(Path::new(DIR)).expect("room");
    disk.sync_dir(Path::new("/")).expect("a sound disk");
    disk
}

fn read(disk: &SimDisk) -> Recovered {
    read_manifest(disk, Path::new(DIR)).expect("a sound manifest").expect("a store")
}

/// Where each frame of a manifest ends.
fn frame_ends(disk: &SimDisk, number: u64) -> Vec<u64> {
    let path = Path::new(DIR).join(paths::manifest_name(number));
    let mut bytes = LogBytes::open(disk, path, MANIFEST_BYTES_MAX).expect("a file");
    let header = Header::read(LogKind::Manifest, &mut bytes).expect("a sound disk").expect("a header");
    let mut frames = Frames::new(&mut bytes, header);
    let mut ends = vec![frames.offset()];
    while frames.next_frame().expect("a sound disk").is_some() {
        ends.push(frames.offset());
    }
    ends
}

/// It was one edit. One that did not fit into a frame ended the process, and again at each start.
#[test]
fn no_state_is_too_long_for_the_frames_of_a_manifest() {
    for tables in [0, 1, 4, 40] {
        let disk = a_disk();
        let mut manifest = create(&disk, 1, tables).expect("room");
        let ends = frame_ends(&disk, 1);
        let longest = ends.windows(2).map(|ends| ends[1] - ends[0]).max().expect("an edit");
        assert!(longest <= (FRAME_HEADER_BYTES + PART_BYTES + 64) as u64, "{longest}");
        assert_eq!((manifest.first_wal, manifest.first_sequence), (5, 5));
        assert_eq!(Some(&manifest.everything_bytes), ends.last());
        assert!(!manifest.is_long(0), "it has nothing but the state");
        manifest
            .append(&Edit { removed: (10..10 + tables.min(1)).collect(), ..Edit::default() })
            .expect("room");
        let recovered = read(&disk);
        assert_eq!((recovered.next_file, recovered.first_wal, recovered.first_sequence), (1_000, 5, 5));
        let left: Vec<_> = recovered.tables.into_values().collect();
        assert_eq!(left[..], everything(tables).added[tables.min(1) as usize..]);
    }
}

#[test]
fn a_power_cut_leaves_the_old_state_or_all_of_the_new_one() {
    for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
        let mut cuts = 0;
        loop {
            let disk = a_disk();
            create(&disk, 1, 3).expect("room");
            disk.cut_power_at_operation(cuts, policy);
            let created = create(&disk, 2, 40);
            let is_cut = !disk.is_powered();
            disk.power_on();
            let recovered = read(&disk);
            assert_eq!(recovered.tables.len(), if recovered.number == 2 { 40 } else { 3 }, "{cuts}");
            if !is_cut {
                created.expect("nothing failed");
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 20, "{cuts} operations: several edits, and a sync of each");
    }
}

/// Tables that it does not name would be removed as what a crash has left.
#[test]
fn a_state_whose_last_edits_are_gone_is_none() {
    let disk = a_disk();
    create(&disk, 1, 40).expect("room");
    let ends = frame_ends(&disk, 1);
    assert!(ends.len() > 5, "{ends:?}");
    let path = Path::new(DIR).join(paths::manifest_name(1));
    let file = disk.open(&path, OpenMode::ReadWrite).expect("a file");
    for end in ends.into_iter().rev().skip(1) {
        file.truncate(end).expect("a sound disk");
        assert!(read_manifest(&disk, Path::new(DIR)).is_err_and(|error| error.is_corruption()), "{end}");
    }
}
