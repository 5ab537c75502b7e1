use std::fs;
use std::path::PathBuf;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

use crate::secure::Trusting;
use crate::support::{Directory, Ladoga, Launch, Node, wait_until};

/// An authority and certificates, made by `ladoga certs create`.
pub(crate) struct Certs {
    directory: Directory,
}

impl Certs {
    /// For these hosts, each with a certificate of its own, and a client called `alice`.
    pub(crate) fn of(hosts: &[&str]) -> Certs {
        let certs = Certs { directory: Directory::new() };
        let dir = certs.text("made");
        let hosts = hosts.iter().flat_map(|host| ["--host", *host]);
        let arguments = ["certs", "create", "--dir", &dir, "--client", "alice"].into_iter().chain(hosts);
        Ladoga::new(arguments).run().expect_success();
        certs
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The same as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("a path of text").to_owned()
    }

    /// A path to a file that `ladoga certs create` made.
    pub(crate) fn made(&self, name: &str) -> String {
        self.text(&format!("made/{name}"))
    }

    /// A node with the certificate of this host.
    pub(crate) fn launch(&self, host: &str) -> Launch {
        self.with(Launch::patient(), host)
    }

    /// The same, started otherwise.
    pub(crate) fn with(&self, launch: Launch, host: &str) -> Launch {
        launch
            .flag("--tls-cert", &self.made(&format!("{host}.pem")))
            .flag("--tls-key", &self.made(&format!("{host}.key")))
            .flag("--fsync", "never")
            .flag("--memory", "32MiB")
            .flag("--threads", "2")
    }

    /// Who trusts the authority.
    pub(crate) fn trusting(&self) -> Trusting {
        Trusting::new(&self.path("made/ca.pem"))
    }

    /// Starts a node and waits until it serves.
    pub(crate) fn start(&self, launch: Launch) -> Node {
        let node = launch.spawn();
        wait_until_it_serves(&node, &self.trusting());
        node
    }
}

pub(crate) fn wait_until_it_serves(node: &Node, trusting: &Trusting) {
    wait_until("a node that serves", || {
        let Ok(mut connection) = trusting.try_open(node.address()) else { return false };
        connection.try_request("GET", "/v0/status", None).is_ok_and(|response| response.status == 200)
    });
}

/// A certificate as no command makes it, and its key.
pub(crate) struct Made {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Made {
    /// Of an authority of its own.
    pub(crate) fn new(host: &str, change: impl FnOnce(&mut CertificateParams)) -> Made {
        let mut of_authority = CertificateParams::new([]).expect("no names");
        of_authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(of_authority, KeyPair::generate().expect("a key"))
            .expect("an authority");
        let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &authority).expect("a certificate");
        Made { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// One that has expired.
    pub(crate) fn expired(host: &str) -> Made {
        Made::new(host, |params| {
            params.not_before = date_time_ymd(2000, 1, 1);
            params.not_after = date_time_ymd(2001, 1, 1);
        })
    }

    /// Writes it into files of these names.
    pub(crate) fn write(&self, certs: &Certs, name: &str) {
        for (end, content) in [("ca", &self.authority), ("pem", &self.certificate), ("key", &self.key)] {
            fs::write(certs.path(&format!("{name}.{end}")), content).expect("a file");
        }
    }
}
