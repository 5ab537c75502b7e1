use ladoga_access::{Scope, Scopes};

/// What a request needs before it is looked at any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it tells no more than whether the node lives. Reasons are for those who have a token.
    Nothing,
    /// A token; what it is asked for needs more.
    Token,
    /// A token with all of these scopes.
    Scopes(Scopes),
    /// A token with one of these scopes.
    AnyScope(Scopes),
    /// The secret of the cluster. No token stands in for it.
    Peer,
}

impl Need {
    pub(crate) const READ: Need = Need::Scopes(Scopes::of(&[Scope::Read]));
    pub(crate) const WRITE: Need = Need::Scopes(Scopes::of(&[Scope::Write]));
    pub(crate) const DELETE: Need = Need::Scopes(Scopes::of(&[Scope::Delete]));
    /// What changes a value by what it is tells what it was.
    pub(crate) const READ_AND_WRITE: Need = Need::Scopes(Scopes::of(&[Scope::Read, Scope::Write]));
    pub(crate) const RANGE: Need = Need::Scopes(Scopes::of(&[Scope::Range]));
    pub(crate) const CHANGES: Need = Need::Scopes(Scopes::of(&[Scope::Changes]));
    pub(crate) const METRICS: Need = Need::Scopes(Scopes::of(&[Scope::Metrics]));
    pub(crate) const PROFILE: Need = Need::Scopes(Scopes::of(&[Scope::Profile]));
    pub(crate) const ADMIN: Need = Need::Scopes(Scopes::of(&[Scope::Admin]));
    /// Who has a node repair itself sees how far that is.
    pub(crate) const METRICS_OR_ADMIN: Need = Need::AnyScope(Scopes::of(&[Scope::Metrics, Scope::Admin]));
}

/// Why nobody is let in. It tells nothing about which tokens there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unauthorized {
    /// Nothing was shown.
    #[error("this request needs a token; expected the header field `Authorization: Bearer TOKEN`")]
    Nothing,
    /// What was shown is something else.
    #[error("the Authorization is no bearer token; expected the header field `Authorization: Bearer TOKEN`")]
    Scheme,
    /// It is no token that counts now.
    #[error("the token is not valid; expected one that `ladoga token list` shows, before it expires")]
    Invalid,
    /// Another node has to show the secret of the cluster.
    #[error(
        "this path is only for nodes that have the secret of the cluster; expected the same --peer-secret on each"
    )]
    Peer,
}
