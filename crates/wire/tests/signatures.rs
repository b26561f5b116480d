//! Compares signatures with the examples of the AWS documentation, and with botocore.

use loadstone_wire::{
    digest::sha256,
    encode::hex_of_sha256,
    http1::Method,
    sigv4::{Credentials, Payload, Request, Signer},
};

const DOCUMENTED_UNIX_S: u64 = 1_369_353_600;

fn documented(request: &Request<'_>) -> String {
    let credentials = Credentials {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        session_token: None,
    };
    let mut signer = Signer::new(credentials, "us-east-1", "s3");
    header_of(&signed(&mut signer, DOCUMENTED_UNIX_S, request), "authorization")
}

fn signed(signer: &mut Signer, unix_s: u64, request: &Request<'_>) -> String {
    let mut head = Vec::new();
    signer.sign(unix_s, request, &mut head);
    String::from_utf8(head).unwrap()
}

fn header_of(head: &str, name: &str) -> String {
    let line = head.lines().find(|line| line.starts_with(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {head}"))[name.len() + 2..].to_owned()
}

const EXAMPLE: Request<'_> = Request {
    method: Method::Get,
    path: b"/",
    query: b"",
    host: b"examplebucket.s3.amazonaws.com",
    headers: &[],
    payload: Payload::Nothing,
};

#[test]
fn the_documented_get_object_has_its_documented_signature() {
    let headers = [("range", b"bytes=0-9".as_slice())];
    let authorization = documented(&Request { path: b"/test.txt", headers: &headers, ..EXAMPLE });
    assert_eq!(
        authorization,
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
         SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
         Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    );
}

#[test]
fn the_documented_presigned_url_has_its_documented_signature() {
    let credentials = Credentials {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        session_token: None,
    };
    let mut signer = Signer::new(credentials, "us-east-1", "s3");
    let request = Request { path: b"/test.txt", ..EXAMPLE };
    let mut query = Vec::new();
    signer.presign(DOCUMENTED_UNIX_S, 86_400, &request, &mut query);
    assert_eq!(
        String::from_utf8(query).unwrap(),
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&\
         X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&\
         X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&\
         X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
}

#[test]
fn the_documented_put_object_has_its_documented_signature() {
    let headers = [
        ("date", b"Fri, 24 May 2013 00:00:00 GMT".as_slice()),
        ("x-amz-storage-class", b"REDUCED_REDUNDANCY"),
    ];
    let hash = hex_of_sha256(&sha256(b"Welcome to Amazon S3."));
    let authorization = documented(&Request {
        method: Method::Put,
        path: b"/test%24file.text",
        headers: &headers,
        payload: Payload::Sha256(&hash),
        ..EXAMPLE
    });
    assert!(
        authorization.ends_with("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
        "{authorization}"
    );
}

#[test]
fn the_documented_bucket_requests_have_their_documented_signatures() {
    for (query, signature) in [
        (
            b"lifecycle".as_slice(),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            b"max-keys=2&prefix=J",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        let authorization = documented(&Request { query, ..EXAMPLE });
        assert!(authorization.ends_with(signature), "{authorization}");
    }
}

#[derive(serde::Deserialize)]
struct Case {
    unix_s: u64,
    region: String,
    method: String,
    path: String,
    query: String,
    host: String,
    headers: Vec<(String, String)>,
    payload: Option<String>,
    token: Option<String>,
    authorization: String,
}

#[test]
fn every_request_has_the_same_signature_as_with_botocore() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("signatures.json")).unwrap();
    assert!(cases.len() >= 60);
    for case in cases {
        let credentials = Credentials {
            access_key: "AKIDEXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: case.token,
        };
        let hash = case.payload.as_ref().map(|body| hex_of_sha256(&sha256(body.as_bytes())));
        let headers: Vec<(&str, &[u8])> =
            case.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let methods = [Method::Get, Method::Put, Method::Post, Method::Delete, Method::Head];
        let request = Request {
            method: methods.into_iter().find(|method| method.name() == case.method).unwrap(),
            path: case.path.as_bytes(),
            query: case.query.as_bytes(),
            host: case.host.as_bytes(),
            headers: &headers,
            payload: hash.as_ref().map_or(Payload::Unsigned, Payload::Sha256),
        };
        let mut signer = Signer::new(credentials, &case.region, "s3");
        // Signatures on another day and in another second must not affect this one.
        signed(&mut signer, case.unix_s - 100_000, &request);
        signed(&mut signer, case.unix_s - 1, &request);
        let head = signed(&mut signer, case.unix_s, &request);
        assert_eq!(header_of(&head, "authorization"), case.authorization, "{head}");
    }
}

#[test]
fn the_head_holds_every_header_that_was_signed() {
    let credentials = Credentials {
        access_key: "A".to_owned(),
        secret_key: "S".to_owned(),
        session_token: Some("T".to_owned()),
    };
    assert!(!format!("{credentials:?}").contains("\"S\""), "a secret must not print");
    let mut signer = Signer::new(credentials, "r", "s3");
    let headers = [("x-amz-acl", b"private".as_slice())];
    let head = signed(&mut signer, 0, &Request { headers: &headers, ..EXAMPLE });
    let names: Vec<&str> = head.lines().map(|line| line.split_once(": ").unwrap().0).collect();
    assert_eq!(
        names,
        [
            "host",
            "x-amz-acl",
            "x-amz-content-sha256",
            "x-amz-date",
            "x-amz-security-token",
            "authorization"
        ]
    );
}
