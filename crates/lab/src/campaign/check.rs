//! What the flags of `ladoga lab run` cannot say alone.

use ladoga_profiler::{ALLOC_INTERVAL_BYTES_MAX, ALLOC_INTERVAL_BYTES_MIN};

use super::options::{Rate, RunOptions};
use super::stage::name_of;
use crate::cli::check_size;
use crate::error::{LabError, Outcome};

impl RunOptions {
    /// Refuses what no run can be made of.
    pub(super) fn check(&self) -> Outcome<()> {
        let usage = |reason: &str| Err(LabError::Usage(reason.to_owned()));
        if self.suite.is_some() && self.threads > 1 {
            return usage("the suite measures with one thread: remove -t");
        }
        check_size(self.connections, self.threads, self.value).map_err(LabError::Usage)?;
        let twice = [
            ("--profile", twice(self.kinds()).map(|kind| kind.name().to_owned())),
            ("--workloads", twice(&self.workloads).map(name_of)),
            ("--rates", twice(&self.rates).map(Rate::to_string)),
        ];
        if let Some((flag, name)) = twice.into_iter().find_map(|(flag, name)| Some((flag, name?))) {
            return usage(&format!("{flag} names {name} twice"));
        }
        if let (Some(url), Some(peer)) = (&self.url, &self.peer)
            && url.is_same_server(peer)
        {
            return usage(&format!(
                "--url and --peer are the same server, {}: a server is compared with another one, and with itself by two reports \
                 (ladoga lab compare)",
                url.place()
            ));
        }
        if !(ALLOC_INTERVAL_BYTES_MIN..=ALLOC_INTERVAL_BYTES_MAX).contains(&self.alloc_interval) {
            return usage(&format!(
                "--alloc-interval is {}, expected {ALLOC_INTERVAL_BYTES_MIN} to {ALLOC_INTERVAL_BYTES_MAX} bytes",
                self.alloc_interval
            ));
        }
        if self.output.file_name().is_none() {
            return usage(&format!("-o is {}, expected the name of a file", self.output.display()));
        }
        if self.output.extension().is_some_and(|ending| ending != "html" && ending != "htm") {
            return usage(&format!("-o is {}, expected a name that ends with .html", self.output.display()));
        }
        Ok(())
    }
}

/// What a list has twice.
fn twice<T: PartialEq>(list: &[T]) -> Option<&T> {
    list.iter().enumerate().find(|(at, item)| list[..*at].contains(item)).map(|(_, item)| item)
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::parsed;

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (line, reason) in [
            ("--rates fast", "or `closed`"),
            ("--workloads nothing", "possible values"),
            ("--suite reports --url http://a", "cannot be used with"),
            ("--suite reports --rates 5", "cannot be used with"),
            ("--quick", "--suite"),
            ("--url http://a --fsync never", "cannot be used with"),
            ("--pid 5", "--url"),
            ("-c1 -t2", "must be >= threads"),
            ("--value 65M", "at most"),
            ("--profile heap", "cpu, alloc or lock"),
            ("--profile cpu,cpu", "--profile names cpu twice"),
            ("--workloads put,status,put", "--workloads names put twice"),
            ("--workloads a,ycsb-a", "--workloads names ycsb-a twice"),
            ("--rates 1k,1000", "--rates names 1000 twice"),
            ("--rates closed,1k,closed", "--rates names closed twice"),
            ("--url http://a --peer http://A:80", "--url and --peer are the same server, a:80"),
            ("--alloc-interval 100", "1024 to"),
            ("--profile cpu --no-profile", "cannot be used with"),
            ("-o /", "expected the name of a file"),
            ("-o x.txt", "ends with .html"),
            ("--fsync maybe", "everysec"),
            ("--memory 5", "at least 16MiB"),
            ("--memory much", "such as 512MiB"),
            ("--memory 512m", "such as 512MiB"),
            ("--memory 20000000KB", "such as 512MiB"),
            ("--node-threads 0", "more than 0"),
            ("--node-threads 1025", "at most 1024 event loops"),
            ("--rounds 0", "more than 0"),
            ("--rounds 5G", "at most 1000000 rounds"),
            ("-c 2M", "at most 1000000 connections"),
            ("-c 2k -t 2k", "at most 1024 threads"),
            ("--url http://a/v0/status", "remove /v0/status"),
            ("--peer http://a?b", "remove /?b"),
            ("--peer http://me:secret@a", "user name"),
            ("--rates 5G", "at most 1000000000 requests a second"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
