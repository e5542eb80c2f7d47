//! TLS as `sslmode` asks for it.
//!
//! | sslmode | encrypted | the server's certificate |
//! |---|---|---|
//! | disable | no | |
//! | prefer | if the server can | not looked at |
//! | require | yes | not looked at |
//! | verify-ca | yes | signed by one of `sslrootcert` |
//! | verify-full | yes | signed by one of `sslrootcert`, and made out to the host |

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tenure_core::{Error, Result};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::{Proof, Roots};

/// Returns the connector that makes connections of the driver speak TLS.
pub(crate) fn connector(proof: &Proof) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|problem| Error::Internal(format!("no TLS: {problem}")))?;
    let authority = match proof {
        Proof::Name(from) => {
            let config = builder.with_root_certificates(roots(from)?);
            return Ok(MakeRustlsConnect::new(config.with_no_client_auth()));
        }
        Proof::None => None,
        Proof::Authority(from) => {
            let roots = Arc::new(roots(from)?);
            let verifier =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            Some(verifier.map_err(|problem| no_roots(from, &problem.to_string()))?)
        }
    };
    let verifier = Arc::new(NameIgnored {
        provider,
        authority,
    });
    let config = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn roots(from: &Roots) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    match from {
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            // One certificate that cannot be read is no reason to distrust the others.
            store.add_parsable_certificates(found.certs);
        }
        Roots::File(path) => {
            let found = CertificateDer::pem_file_iter(path);
            let found = found.map_err(|problem| no_roots(from, &problem.to_string()))?;
            for certificate in found {
                let certificate =
                    certificate.map_err(|problem| no_roots(from, &problem.to_string()))?;
                let added = store.add(certificate);
                added.map_err(|problem| no_roots(from, &problem.to_string()))?;
            }
        }
    }
    if store.is_empty() {
        Err(no_roots(from, "there is no certificate in it"))
    } else {
        Ok(store)
    }
}

fn no_roots(from: &Roots, problem: &str) -> Error {
    let place = match from {
        Roots::System => "the certificates of the system".to_owned(),
        Roots::File(path) => path.display().to_string(),
    };
    Error::configuration(
        format!("sslrootcert, {place}: {problem}"),
        "give a file of certificates in PEM form as sslrootcert, or sslrootcert=system",
    )
}

/// Accepts a certificate whatever name is in it: for `prefer` and `require`, which ask for no
/// proof, any certificate; for `verify-ca`, a certificate that a trusted authority signed.
#[derive(Debug)]
struct NameIgnored {
    provider: Arc<CryptoProvider>,
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for NameIgnored {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authority) = &self.authority else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is checked last: everything else holds if only the name is wrong.
        let verified = authority.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
