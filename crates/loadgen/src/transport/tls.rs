//! TLS configuration of targets.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde_json::{Map, Value};

use crate::error::{Error, Kind};

/// Returns the mistakes in the setting `tls`.
pub(crate) fn mistakes(settings: &Map<String, Value>) -> Vec<String> {
    let Some(Value::Object(tls)) = settings.get("tls") else { return Vec::new() };
    let mut mistakes = Vec::new();
    for (key, value) in tls {
        let (is_right, allowed) = match key.as_str() {
            "ca_file" => (value.is_string() || value.is_null(), "the path of a PEM file"),
            "verify" => (value.is_boolean(), "true or false"),
            _ => (false, "ca_file, verify"),
        };
        if !is_right {
            mistakes.push(format!("target.settings.tls.{key}: found {value}, allowed: {allowed}"));
        }
        if let ("ca_file", Some(path)) = (key.as_str(), value.as_str())
            && let Err(error) = std::fs::metadata(path)
        {
            mistakes.push(format!("target.settings.tls.ca_file: \"{path}\": {error}"));
        }
    }
    mistakes
}

/// Creates the configuration that all connections of a target share.
///
/// # Errors
/// The authority's file, or this host's own authorities, cannot be read.
pub(crate) fn client_config(settings: &Map<String, Value>) -> Result<Arc<ClientConfig>, Error> {
    let setting = |key: &str| settings.get("tls").and_then(|tls| tls.get(key));
    let is_verified = setting("verify").and_then(Value::as_bool).unwrap_or(true);
    let ca_file = setting("ca_file").and_then(Value::as_str);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::target("set up TLS", error.to_string()).of(Kind::Certificates))?;
    let config = if is_verified {
        builder.with_root_certificates(roots(ca_file)?).with_no_client_auth()
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NoVerification(provider)))
            .with_no_client_auth()
    };
    Ok(Arc::new(config))
}

fn roots(ca_file: Option<&str>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca_file else {
        let native = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(native.certs);
        if roots.is_empty() {
            return Err(Error::target("trust HTTPS targets", "this host has no authorities")
                .of(Kind::Certificates)
                .with_hint("install ca-certificates, or give tls: {ca_file: PATH}"));
        }
        return Ok(roots);
    };
    let action = || format!("read the authorities in \"{path}\"");
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates = certificates
        .map_err(|error| Error::target(action(), error.to_string()).of(Kind::Certificates))?;
    if certificates.is_empty() {
        return Err(Error::target(action(), "it holds no certificate").of(Kind::Certificates));
    }
    for certificate in certificates {
        roots
            .add(certificate)
            .map_err(|error| Error::target(action(), error.to_string()).of(Kind::Certificates))?;
    }
    Ok(roots)
}

/// Accepts any certificate, for test environments.
#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
