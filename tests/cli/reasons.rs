use std::fs;

use crate::support::{Directory, Ladoga};

#[test]
fn a_data_directory_that_cannot_be_opened_is_named() {
    let directory = Directory::new();
    let file = directory.path().join("file");
    fs::write(&file, "text").expect("a file");
    for path in [file.clone(), file.join("data")] {
        let path = path.to_str().expect("a path");
        let told = format!("ladoga: cannot open the data directory {path}: Not a directory");
        for more in [&[][..], &["--check-config"], &["--cluster", "http://127.0.0.1:1,http://127.0.0.1:2"]] {
            let serve = ["serve", "--listen", "127.0.0.1:1", "--data", path];
            Ladoga::new(serve.iter().chain(more)).run().expect_failure(1, &[&told]);
        }
    }
    let none = directory.path().join("none");
    let told = "is not a data directory of a node";
    let why = format!("open {}/CURRENT failed: No such file or directory", none.display());
    Ladoga::new(["check".as_ref(), none.as_os_str()]).run().expect_failure(1, &[told, &why]);
}
