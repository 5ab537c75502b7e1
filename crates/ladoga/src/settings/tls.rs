use ladoga_tls::TlsPaths;

use super::SettingError;
use super::access::file;
use super::cluster::urls;
use super::sources::Sources;
use crate::client::Scheme;

/// Reads where the files of TLS are; `None` if there is to be none. Whether they are of use is found out later.
pub(super) fn paths(sources: &Sources) -> Result<Option<TlsPaths>, SettingError> {
    let certificate = sources.get("tls_cert", file)?;
    let key = sources.get("tls_key", file)?;
    let client_authority = sources.get("tls_client_ca", file)?;
    let peer_authority = sources.get("peer_ca", file)?;
    let needs = |name: &'static str, expected: &str| sources.get::<()>(name, |_| Err(expected.to_owned()));
    if key.is_none() {
        needs("tls_cert", "--tls-key FILE with it")?;
    }
    let Some((certificate, key)) = certificate.zip(key) else {
        for name in ["tls_key", "tls_client_ca", "peer_ca"] {
            needs(name, "--tls-cert FILE with it: `ladoga certs create` makes certificates to try")?;
        }
        check_urls(sources, Scheme::Http, "http:// URLs, or --tls-cert, --tls-key and --peer-ca with them")?;
        return Ok(None);
    };
    check_urls(sources, Scheme::Https, "https:// URLs, as --tls-cert has each node speak TLS")?;
    let is_of_cluster = sources.name("cluster").is_some();
    match (&peer_authority, is_of_cluster) {
        (None, true) => {
            needs("cluster", "--peer-ca FILE with https:// URLs: who signs the certificates of nodes")?
        }
        (Some(_), false) => needs("peer_ca", "--cluster with https:// URLs with it")?,
        _ => None,
    };
    Ok(Some(TlsPaths { certificate, key, client_authority, peer_authority }))
}

fn check_urls(sources: &Sources, scheme: Scheme, expected: &str) -> Result<(), SettingError> {
    let check = |text: &str| {
        let urls = urls(text)?;
        if urls.iter().all(|url| url.scheme == scheme) { Ok(()) } else { Err(expected.to_owned()) }
    };
    sources.get("cluster", check).map(drop)
}
