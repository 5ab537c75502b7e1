//! Which node a command asks, as whom, and by which certificates.

use std::path::Path;

use ladoga_http1::masked;
use ladoga_tls::client::{Identity, Trust, Unusable};
use ladoga_tls::{FILE_BYTES_MAX, read_bounded};

use super::Failure;
use crate::arguments::NodeArguments;
use crate::client::{Bearer, ClientTls, Scheme, Url};
use crate::tls_flags::ClientTlsFlags;

/// Where a node is, and what it is shown.
pub(super) fn node_url(node: &NodeArguments) -> Result<Url, Failure> {
    let url = ONE_NODE.url(&node.url, node.token_file.as_deref(), &node.tls)?;
    expect_tls(&node.tls, &[&url])?;
    Ok(url)
}

/// Refuses files of TLS that were typed if nothing is sent by TLS: who names them does not expect that.
pub(super) fn expect_tls(flags: &ClientTlsFlags, urls: &[&Url]) -> Result<(), Failure> {
    let typed = [("--cacert", &flags.cacert), ("--cert", &flags.client_cert), ("--key", &flags.client_key)];
    let typed = typed.into_iter().find_map(|(flag, path)| Some((flag, path.as_ref()?)));
    match typed {
        Some((flag, path)) if urls.iter().all(|url| url.scheme == Scheme::Http) => {
            let urls = urls.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
            let path = path.display();
            Err(Failure::Usage(format!(
                "{flag} is '{path}', expected an https:// URL with it, and not {urls}"
            )))
        }
        _ => Ok(()),
    }
}

/// By what a node is named on a command line.
pub(super) struct NodeFlags {
    pub(super) url: &'static str,
    pub(super) token_file: &'static str,
    /// The variables in which a client has its token; the first one that is set counts. There is no flag for it: everybody on a machine
    /// can read those.
    pub(super) variables: &'static [&'static str],
    /// How a token is given, for who has given none.
    pub(super) token_hint: &'static str,
}

const ONE_NODE: NodeFlags = NodeFlags {
    url: "--url",
    token_file: "--token-file",
    variables: &["LADOGA_TOKEN"],
    token_hint: "--token-file FILE or LADOGA_TOKEN",
};

impl NodeFlags {
    /// Where the node is, and what it is shown.
    pub(super) fn url(
        &self,
        text: &str,
        token_file: Option<&Path>,
        tls: &ClientTlsFlags,
    ) -> Result<Url, Failure> {
        let flag = self.url;
        let wrong = || {
            let typed = masked(text);
            format!("{flag} is '{typed}', expected the URL of a node, such as http://127.0.0.1:8080")
        };
        let url = Url::parse(text).ok_or_else(|| Failure::Usage(wrong()))?;
        let tls = client_tls(tls, &url)?;
        let bearer = match token_file {
            Some(path) => Some(self.bearer_in(path)?),
            None => self.bearer_of_environment()?,
        };
        Ok(Url { bearer, token_hint: self.token_hint, tls, ..url })
    }

    fn bearer_in(&self, path: &Path) -> Result<Bearer, Failure> {
        let (text, flag) = (read_bounded(path), self.token_file);
        let path = path.display();
        let wrong = |why: String| Failure::Usage(format!("{flag} is '{path}', expected {why}"));
        let text = text.map_err(|error| wrong(format!("a file that can be read: {error}")))?;
        let expected = "a file with one token in it, as `ladoga token create` prints it";
        // One that is too long ends in its middle.
        let text = str::from_utf8(&text).ok().filter(|text| text.len() <= FILE_BYTES_MAX);
        text.and_then(Bearer::parse).ok_or_else(|| wrong(expected.to_owned()))
    }

    fn bearer_of_environment(&self) -> Result<Option<Bearer>, Failure> {
        let set = |name: &&'static str| Some((*name, std::env::var_os(name)?));
        let Some((name, text)) = self.variables.iter().find_map(set) else { return Ok(None) };
        let expected = "a token, as `ladoga token create` prints it";
        let parsed = text.to_str().and_then(Bearer::parse);
        // What it is stays unsaid.
        parsed
            .map(Some)
            .ok_or_else(|| Failure::Usage(format!("{name} has no token in it, expected {expected}")))
    }
}

fn client_tls(flags: &ClientTlsFlags, url: &Url) -> Result<Option<ClientTls>, Failure> {
    if flags.client_cert.is_some() || flags.client_key.is_some() {
        // What was typed has to be right; what the environment says need not matter to this URL.
        flags.identity().map_err(Failure::Usage)?;
    }
    if url.scheme == Scheme::Http {
        return Ok(None);
    }
    let trust = match flags.authorities() {
        _ if flags.insecure_skip_verify => Trust::Anybody,
        Some(path) => Trust::File(path),
        None => Trust::System,
    };
    let files = flags.identity().map_err(Failure::Usage)?;
    let identity = files.map(|(cert, key)| Identity::read(&cert, &key)).transpose();
    let tls = identity.and_then(|identity| ClientTls::new(&url.host, &trust, identity.as_ref()));
    tls.map(Some).map_err(|why| match why {
        Unusable::NoAuthorities(_) => {
            Failure::Usage(format!("{why}. Give --cacert FILE with the one of the node"))
        }
        why => Failure::Usage(why.to_string()),
    })
}
