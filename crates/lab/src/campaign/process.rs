//! Whether the process that a person named can be the server's: figures of another process look like those of any server.

use std::path::Path;

use super::options::RunOptions;
use super::sampler::cpu_us;
use crate::cli::Target;
use crate::error::{LabError, Outcome};
use crate::files;

/// The state of a socket that listens, as `/proc/net/tcp` has it.
const LISTENING: &str = "0A";

/// Remarks about the processes that were named.
pub(super) fn remarks(options: &RunOptions) -> Outcome<Vec<String>> {
    let named = [("--pid", options.pid, &options.url), ("--peer-pid", options.peer_pid, &options.peer)];
    let named = named.into_iter().filter_map(|(flag, pid, target)| Some((flag, pid?, target.as_ref()?)));
    let checked: Outcome<Vec<_>> = named.map(|(flag, pid, target)| check(flag, pid, target)).collect();
    Ok(checked?.into_iter().flatten().collect())
}

/// A remark if the process listens on another port than the server's; an error if there is no such process. `flag` is the one
/// that named it.
fn check(flag: &str, pid: u32, target: &Target) -> Outcome<Option<String>> {
    if cpu_us(pid).is_none() {
        return Err(LabError::Usage(format!("{flag} {pid}: no such process on this machine")));
    }
    let port = target.port_or_default();
    // A server in a container, or behind another process, may have another port there: this is a remark, not a refusal.
    Ok((listens(pid, port) == Some(false)).then(|| {
        let name = files::read_text(format!("/proc/{pid}/comm").as_ref()).unwrap_or_default();
        format!(
            "{flag} {pid} ({}) does not listen on port {port}: its CPU and memory are shown as the server's.",
            name.trim()
        )
    }))
}

/// None if the system does not tell, as of a process of another user.
fn listens(pid: u32, port: u16) -> Option<bool> {
    let table = |name: &str| files::read_text(format!("/proc/{pid}/net/{name}").as_ref());
    let tables = [table("tcp").ok()?, table("tcp6").unwrap_or_default()];
    let sockets: Vec<String> =
        tables.iter().flat_map(|table| table.lines()).filter_map(|line| socket_on(line, port)).collect();
    let own = files::links(Path::new(&format!("/proc/{pid}/fd"))).ok()?;
    Some(own.iter().any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str())))
}

/// The link of a descriptor of the socket in this line, if it listens on the port.
fn socket_on(line: &str, port: u16) -> Option<String> {
    let mut words = line.split_whitespace().skip(1);
    let (local, _, state) = (words.next()?, words.next()?, words.next()?);
    let (_, found) = local.rsplit_once(':')?;
    let is_it = state == LISTENING && u16::from_str_radix(found, 16) == Ok(port);
    // After the state: queues, timer, retransmissions, user, timeout, inode.
    is_it.then(|| words.nth(5).map(|inode| format!("socket:[{inode}]")))?
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn sockets_that_listen_are_found() {
        let line = "   3: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0";
        assert_eq!(socket_on(line, 8080), Some("socket:[4711]".to_owned()));
        assert_eq!(socket_on(line, 8081), None);
        assert_eq!(socket_on(&line.replace(" 0A ", " 01 "), 8080), None, "a connection");
        assert_eq!(socket_on("  sl  local_address rem_address   st tx_queue", 8080), None);
    }

    #[test]
    fn a_process_that_is_not_the_server_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let own = std::process::id();
        assert_eq!(check("--pid", own, &target).unwrap(), None);
        drop(listener);
        let remark = check("--pid", own, &target).unwrap().unwrap();
        assert!(remark.starts_with(&format!("--pid {own} (")), "{remark}");
        // No process has this number: it is over the largest that Linux gives.
        let refusal = check("--peer-pid", 5_000_000, &target).unwrap_err().to_string();
        assert_eq!(refusal, "--peer-pid 5000000: no such process on this machine");
    }
}
