use std::fs;
use std::path::Path;

use crate::support::{Directory, Ladoga, files_below};
use crate::{repository, run};

const COMMANDS: [&str; 4] = ["serve", "get", "bench", "check"];

#[test]
fn there_is_a_manual_page_for_each_command() {
    let directory = Directory::new();
    let to = directory.path().join("man1");
    Ladoga::new(["man", "--to", to.to_str().expect("a path")]).run().expect_success();
    for page in std::iter::once("ladoga.1".to_owned())
        .chain(COMMANDS.iter().map(|command| format!("ladoga-{command}.1")))
    {
        let text = fs::read_to_string(to.join(&page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".TH"), "{page} is no manual page: {text}");
    }
    let serve = fs::read_to_string(to.join("ladoga-serve.1")).expect("a page");
    assert!(serve.contains("fsync"), "{serve}");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("a file");
    Ladoga::new(["man", "--to", file.to_str().expect("a path")])
        .run()
        .expect_failure(1, &["cannot write to", "file"]);
}

#[test]
fn shells_take_the_completions() {
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef ladoga"), ("fish", "complete -c ladoga")]
    {
        let script = Ladoga::new(["completions", shell]).run().expect_success();
        assert!(script.text().contains(sign), "{shell}: {}", script.text());
        for command in COMMANDS {
            assert!(script.text().contains(command), "{shell} does not complete {command}");
        }
    }
    let script = Ladoga::new(["completions", "bash"]).run().expect_success();
    let directory = Directory::new();
    let file = directory.path().join("ladoga.bash");
    fs::write(&file, script.text()).expect("a file");
    let ask = format!(
        "source {}; COMP_WORDS=(ladoga chec); COMP_CWORD=1; _ladoga ladoga chec ladoga; echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let Some((is_done, text)) = run("bash", &["-c", &ask]) else { return };
    assert!(is_done && text.trim() == "check", "{text}");
    Ladoga::new(["completions", "tcsh"]).run().expect_failure(2, &["tcsh", "bash"]);
}

/// Lays the package out below `root`.
fn unpacked(directory: &Directory) -> Option<(String, std::path::PathBuf)> {
    let build = repository("ops/deb/build");
    let out = directory.path().join("out");
    let built = std::process::Command::new(&build)
        .args([env!("CARGO_BIN_EXE_ladoga"), out.to_str().expect("a path")])
        // Packing a binary with debug information takes long, and is not what is tested.
        .env("LADOGA_DEB_FLAGS", "-Znone")
        .output()
        .expect("a shell");
    let (_, version) = run("dpkg-deb", &["--version"])?;
    assert!(built.status.success(), "{version}: {}", String::from_utf8_lossy(&built.stderr));
    let package = String::from_utf8(built.stdout).expect("a path").trim().to_owned();
    let root = directory.path().join("root");
    let root_name = root.to_str().expect("a path").to_owned();
    let (is_done, text) = run("dpkg-deb", &["-x", &package, &root_name])?;
    assert!(is_done, "{text}");
    Some((package, root))
}

#[test]
fn the_package_has_all_that_a_machine_needs() {
    let directory = Directory::new();
    let Some((package, root)) = unpacked(&directory) else { return };
    let files: Vec<String> = files_below(&root)
        .into_iter()
        .map(|(path, _)| path.strip_prefix(&root).unwrap_or(&path).display().to_string())
        .collect();
    for expected in [
        "usr/bin/ladoga",
        "etc/ladoga/ladoga.toml",
        "usr/lib/systemd/system/ladoga.service",
        "usr/lib/sysusers.d/ladoga.conf",
        "usr/share/man/man1/ladoga.1.gz",
        "usr/share/man/man1/ladoga-serve.1.gz",
        "usr/share/bash-completion/completions/ladoga",
        "usr/share/zsh/vendor-completions/_ladoga",
        "usr/share/fish/vendor_completions.d/ladoga.fish",
        "usr/share/doc/ladoga/copyright",
    ] {
        assert!(files.iter().any(|file| file == expected), "{expected} is missing: {files:#?}");
    }
    let Some((_, control)) = run("dpkg-deb", &["-f", &package]) else { return };
    assert!(control.contains("Package: ladoga\n") && control.contains("\nDepends: "), "{control}");
    assert!(control.contains(&format!("\nVersion: {}\n", env!("CARGO_PKG_VERSION"))), "{control}");
    // What was installed runs, and takes the settings that were installed.
    let config = root.join("etc/ladoga/ladoga.toml");
    let binary = root.join("usr/bin/ladoga");
    let binary = binary.to_str().expect("a path");
    let arguments = ["serve", "--check-config", "--config", config.to_str().expect("a path")];
    let Some((is_right, text)) = run(binary, &arguments) else { return };
    assert!(is_right && text.contains("data in /var/lib/ladoga"), "{text}");
    verify_unit(&root);
    verify_user(&package, &root);
}

/// That systemd takes the unit, and that it leaves little open.
fn verify_unit(root: &Path) {
    let unit = root.join("usr/lib/systemd/system/ladoga.service");
    let text = fs::read_to_string(&unit).expect("a unit");
    // With processes only in /proc, a node does not know whether CPUs are idle (/proc/stat), and all of its event loops serve.
    assert!(!text.contains("\nProcSubset=pid"), "{text}");
    // The path of the binary is the only thing that is not here.
    let here =
        text.replace("ExecStart=/usr/bin/ladoga", &format!("ExecStart={}/usr/bin/ladoga", root.display()));
    assert_ne!(text, here, "the unit starts another binary");
    fs::write(&unit, here).expect("a unit");
    let unit = unit.to_str().expect("a path");
    let Some((is_right, told)) = run("systemd-analyze", &["verify", "--man=no", unit]) else { return };
    assert!(is_right, "{told}");
    let security = ["security", "--offline=true", "--threshold=20", "--no-pager", unit];
    let Some((is_little, told)) = run("systemd-analyze", &security) else { return };
    assert!(is_little, "{told}");
}

/// That the user whom the unit names is made when the package is installed.
fn verify_user(package: &str, root: &Path) {
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/ladoga.service")).expect("a unit");
    assert!(unit.contains("\nUser=ladoga\n") && !unit.contains("DynamicUser"), "{unit}");
    let script = root.join("control");
    let script_name = script.to_str().expect("a path");
    let Some((is_done, told)) = run("dpkg-deb", &["-e", package, script_name]) else { return };
    assert!(is_done, "{told}");
    // A node whose package was removed served on, and a new unit did not count.
    for (name, part) in [
        ("postinst", "systemd-sysusers ladoga.conf"),
        ("postinst", "systemctl daemon-reload"),
        (
            "prerm",
            "[ \"$1\" = remove ] && [ -d /run/systemd/system ]; then systemctl disable --now ladoga.service",
        ),
        ("postrm", "systemctl daemon-reload"),
    ] {
        let path = script.join(name);
        let text = fs::read_to_string(&path).expect("a script of the package");
        assert!(text.contains(part), "{name}: {text}");
        let Some((is_right, told)) = run("sh", &["-n", path.to_str().expect("a path")]) else { return };
        assert!(is_right, "{name}: {told}");
    }
    let root = format!("--root={}", root.display());
    let Some((is_done, told)) = run("systemd-sysusers", &[&root, "ladoga.conf"]) else { return };
    assert!(is_done, "{told}");
}
