/// What the traits of rustls for both sides ask of a verifier beside whose certificate it is: whether the other side has its key. The
/// verifier has a `provider`, which checks it; `$judged` makes the outcome of what that says.
macro_rules! signatures_checked {
    ($judged:path) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            $judged(rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            $judged(rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms))
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

pub(crate) use signatures_checked;
