//! nginx with one worker and a constant answer.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::free_address;
use crate::process::{Process, find_program, line_of};
use crate::stop::{OrFail, Outcome};

#[derive(Debug)]
pub(crate) struct Nginx {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Nginx {
    /// Answers every request with this status and a body of so many bytes.
    pub(crate) fn start(folder: &Path, status: u16, body_bytes: usize) -> Outcome<Self> {
        let program = find_program("nginx")?;
        let address = free_address()?;
        let file = folder.join("nginx.conf");
        fs::write(&file, configuration(address, status, body_bytes))
            .or_fail(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "stderr"]);
        let body = if body_bytes == 0 { String::new() } else { format!(" \"({body_bytes} bytes)\"") };
        let line =
            format!("{} # one worker, location / {{ return {status}{body}; }}", line_of(&command, folder));
        let mut process = Process::spawn(&mut command, line, folder.join("nginx.log"))?;
        process.wait_until(Duration::from_secs(10), || TcpStream::connect(address).is_ok())?;
        Ok(Self { process, address })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// One process that is the worker too, so that its CPU time is the worker's.
fn configuration(address: SocketAddr, status: u16, body_bytes: usize) -> String {
    let body = if body_bytes == 0 { String::new() } else { format!(" \"{}\"", "x".repeat(body_bytes)) };
    format!(
        "daemon off;
master_process off;
worker_processes 1;
error_log stderr error;
pid nginx.pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 3600s;
    client_max_body_size 64m;
    client_body_temp_path temp-body;
    proxy_temp_path temp-proxy;
    fastcgi_temp_path temp-fastcgi;
    uwsgi_temp_path temp-uwsgi;
    scgi_temp_path temp-scgi;
    default_type application/octet-stream;
    server {{
        listen {address};
        location / {{ return {status}{body}; }}
    }}
}}
"
    )
}
