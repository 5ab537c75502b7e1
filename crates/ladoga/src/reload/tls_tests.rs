#![expect(clippy::disallowed_methods, reason = "a node reads its certificate from files")]

use std::fs;

use ladoga_tls::TlsPaths;

use super::*;

/// Who wrote a chain in place had a node that went on without its end, if it looked at that moment.
#[test]
fn a_file_that_is_still_being_written_does_not_count() {
    let dir = std::env::temp_dir().join(format!("ladoga-watched-tls-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let paths = TlsPaths {
        certificate: dir.join("tls.pem"),
        key: dir.join("tls.key"),
        client_authority: None,
        peer_authority: None,
    };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (leaf, chain) = (made.cert.pem(), made.cert.pem().repeat(2));
    let write = |text: &str| fs::write(&paths.certificate, text).expect("a file");
    fs::write(&paths.key, made.signing_key.serialize_pem()).expect("a file");
    write(&chain);
    let files = paths.read().expect("files");
    let tls = Arc::new(NodeTls::new(files.clone()).expect("a certificate and its key"));
    let mut watched = WatchedTls::new(Arc::clone(&tls), files);
    let mut reloads_after_look = |is_asked| {
        watched.look(is_asked);
        tls.figures.reloads()
    };
    write(&leaf);
    assert_eq!(reloads_after_look(false), (0, 0), "the rest of the chain may come yet");
    write(&chain);
    assert_eq!([reloads_after_look(false), reloads_after_look(false)], [(0, 0); 2], "it is as it was");
    write(&leaf);
    assert_eq!([reloads_after_look(false), reloads_after_look(false)], [(0, 0), (1, 0)]);
    write(&leaf[..leaf.len() / 2]);
    assert_eq!([reloads_after_look(false), reloads_after_look(false)], [(1, 0), (1, 1)]);
    assert!(tls.problem().is_some());
    write(&chain);
    assert_eq!(reloads_after_look(true), (2, 1), "who asks says that it is complete");
    assert_eq!(tls.problem(), None);
    fs::remove_dir_all(&dir).expect("a directory");
}
