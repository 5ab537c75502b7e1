use std::fs;
use std::path::Path;

use crate::support::{Directory, Ladoga, Port};

/// Settings that have a variable and a line in the file, and no flag.
const WITHOUT_FLAG: [&str; 2] = ["log", "disk_reads"];
/// A setting, a value that it cannot have, and a word that the reason has to have beside them.
const WRONG: [(&str, &str, &str); 35] = [
    ("listen", "nonsense", "HOST:PORT"),
    ("listen", "127.0.0.1", "HOST:PORT"),
    ("resp", "6379", "HOST:PORT"),
    ("listen", "127.0.0.1:", "HOST:PORT"),
    ("listen", "127.0.0.1:65536", "HOST:PORT"),
    ("listen", "127.0.0.1:http", "HOST:PORT"),
    ("listen", ":8080", "HOST:PORT"),
    ("fsync", "sometimes", "everysec"),
    ("fsync", "", "everysec"),
    ("fsync", "Always!", "everysec"),
    ("memory", "much", "expected"),
    ("memory", "", "expected"),
    ("memory", "-1", "expected"),
    ("memory", "0", "16"),
    ("memory", "1MiB", "16"),
    ("memory", "16777215", "16"),
    ("memory", "12 parsecs", "expected"),
    ("memory", "1.2.3GiB", "expected"),
    ("memory", "99999999999999999999GiB", "expected"),
    ("threads", "0", "1"),
    ("threads", "-1", "expected"),
    ("threads", "two", "expected"),
    ("threads", "1.5", "expected"),
    ("threads", "1000000", "expected"),
    ("cluster", "nonsense", "http://"),
    ("cluster", "ftp://127.0.0.1:1", "http://"),
    ("cluster", "http://", "http://"),
    ("cluster", "http://127.0.0.1:1,,", "expected"),
    ("advertise", "nonsense", "http://"),
    ("advertise", "http://192.0.2.1:1", "cluster"),
    ("log", "zzz", "warn"),
    ("log", "", "warn"),
    ("log", "warn,zzz", "warn"),
    ("log", "ladoga_storage=loud", "debug"),
    ("disk_reads", "ring", "pool"),
];

/// It is refused before anything is opened: with 2, and words that name the setting, its value and what was expected.
#[track_caller]
fn expect_refusal(ladoga: Ladoga, data: &Path, named: &[&str]) {
    let outcome = ladoga.run().expect_failure(2, named);
    assert!(outcome.stderr.contains("expected"), "the reason says nothing of what was expected: {outcome:?}");
    assert_eq!(outcome.stdout, b"", "a refusal belongs on the standard error");
    assert!(!data.exists(), "the data directory was opened");
}

/// A file as TOML has it: the value as a string, whatever type the setting has.
fn toml(name: &str, value: &str) -> String {
    format!("{name} = {value:?}\n")
}

#[test]
fn a_wrong_flag_is_named() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    for (name, value, word) in WRONG.into_iter().filter(|(name, ..)| !WITHOUT_FLAG.contains(name)) {
        let flag = format!("--{name}={value}");
        let ladoga = Ladoga::new(["serve".as_ref(), "--data".as_ref(), data.as_os_str(), flag.as_ref()]);
        expect_refusal(ladoga, &data, &[name, value, word]);
    }
}

#[test]
fn a_wrong_variable_is_named() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    for (name, value, word) in WRONG {
        let variable = format!("LADOGA_{}", name.to_uppercase());
        let ladoga =
            Ladoga::new(["serve".as_ref(), "--data".as_ref(), data.as_os_str()]).env(&variable, value);
        expect_refusal(ladoga, &data, &[&variable, value, word]);
    }
}

#[test]
fn a_wrong_line_of_the_file_is_named() {
    let directory = Directory::new();
    let (data, file) = (directory.path().join("data"), directory.path().join("ladoga.toml"));
    for (name, value, word) in WRONG {
        fs::write(&file, toml(name, value)).expect("a file of settings");
        let ladoga = ["serve", "--config", file.to_str().expect("a path of text"), "--data"];
        let ladoga = Ladoga::new(ladoga.iter().map(AsRef::as_ref).chain([data.as_os_str()]));
        expect_refusal(ladoga, &data, &[name, value, word]);
    }
}

#[test]
fn a_file_that_says_nothing_useful_is_named() {
    let directory = Directory::new();
    let (data, file) = (directory.path().join("data"), directory.path().join("settings.toml"));
    let run = || {
        Ladoga::new([
            "serve".as_ref(),
            "--config".as_ref(),
            file.as_os_str(),
            "--data".as_ref(),
            data.as_os_str(),
        ])
    };
    expect_refusal(run(), &data, &["settings.toml"]);
    for (text, named) in [
        ("no equals sign", "settings.toml"),
        ("fsync = always", "settings.toml"),
        ("[server]\nlisten = \"127.0.0.1:1\"", "server"),
        ("memroy = \"64MiB\"", "memroy"),
        ("threads = \"many\"", "threads"),
        ("threads = -1", "threads"),
        ("threads = true", "threads"),
        ("listen = 8080", "listen"),
        ("fsync = 1", "fsync"),
        ("config = \"another.toml\"", "config"),
    ] {
        fs::write(&file, text).expect("a file of settings");
        let outcome = run().run().expect_failure(2, &[named]);
        assert!(!data.exists(), "the data directory was opened for {text:?}: {outcome:?}");
    }
    fs::write(&file, [0xff, 0xfe, 0]).expect("a file of no settings");
    run().run().expect_failure(2, &["settings.toml"]);
}

#[test]
fn a_directory_that_cannot_be_is_named() {
    let directory = Directory::new();
    let file = directory.path().join("file");
    fs::write(&file, "not a directory").expect("a file");
    let port = Port::claim();
    for data in [file.clone(), file.join("below")] {
        let name = data.to_str().expect("a path of text").to_owned();
        Ladoga::new(["serve", "--listen", &port.address().to_string(), "--data", &name])
            .run()
            .expect_reason(&[&name]);
    }
    assert_eq!(fs::read(&file).expect("the file"), b"not a directory");
}

#[test]
fn a_data_directory_is_created_where_it_is_absent() {
    let directory = Directory::new();
    let data = directory.path().join("deeper").join("down");
    let node = crate::support::Launch::new().data(&data).start();
    node.connect().put("key", b"value");
    assert!(data.join("LOCK").exists());
}

#[test]
fn sizes_have_units() {
    for memory in ["16MiB", "512MiB", "4GiB", "65536KiB"] {
        let ladoga = Ladoga::new(["serve", "--memory", memory, "--threads", "0"]);
        // The memory is fine if only the threads are named.
        let outcome = ladoga.run().expect_failure(2, &["threads"]);
        assert!(!outcome.stderr.contains("memory"), "{memory} is a size: {outcome:?}");
    }
}

/// What the start would refuse, the check refuses too.
#[test]
fn a_check_refuses_what_cannot_be_started() {
    let (directory, port) = (Directory::new(), Port::claim());
    let address = port.address().to_string();
    let data = directory.path().join("data");
    let at = |name: &str| directory.path().join(name).to_str().expect("a path of text").to_owned();
    let (audit, nowhere, itself) = (at("audit.log"), at("none/audit.log"), at(""));
    for check in [&[][..], &["--check-config"]] {
        let serve = |flags: &[&str]| {
            let own = ["serve", "--listen", &address, "--data", data.to_str().expect("a path of text")];
            Ladoga::new([&own[..], flags, check].concat())
        };
        expect_refusal(serve(&["--resp", &address]), &data, &["--resp", &address, "--listen"]);
        let everywhere = format!("0.0.0.0:{}", port.address().port());
        let named = ["--resp", &everywhere, "another port than that of --listen", &address];
        expect_refusal(serve(&["--resp", &everywhere, "--insecure"]), &data, &named);
        for path in [&nowhere, &itself] {
            expect_refusal(
                serve(&["--audit", path]),
                &data,
                &["--audit", path, "a file that can be written"],
            );
        }
    }
    let right = ["serve", "--check-config", "--listen", &address, "--audit", &audit];
    Ladoga::new(right).run().expect_success();
    assert!(!Path::new(&audit).exists(), "a check makes no file");
    Ladoga::new(["serve", "--check-config", "--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0"])
        .run()
        .expect_success();
}
