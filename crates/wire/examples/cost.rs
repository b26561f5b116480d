//! Prints the cost of signing a request, hashing a payload and parsing an answer: `cargo run
//! --release --example cost`.

use std::{hint::black_box, io::Write, time::Instant};

use loadstone_wire::{
    digest::{LANES, Sha256Lanes, sha256},
    http1::{self, Event, Method, ResponseParser},
    sigv4::{Credentials, Payload, Request, Signer},
};

const ROUNDS: u32 = 200_000;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "sign a get      {:6.0} ns", best(sign()))?;
    let page = [7; 4096];
    let alone = best(|| {
        black_box(sha256(black_box(&page)));
    });
    let four = best(|| {
        let mut lanes = Sha256Lanes::default();
        lanes.update([black_box(&page); LANES]);
        black_box(lanes.finish([&[]; LANES]));
    });
    writeln!(out, "hash 4 KiB      {alone:6.0} ns")?;
    writeln!(out, "side by side    {:6.0} ns each", four / LANES as f64)?;
    writeln!(out, "read 4 KiB      {:6.0} ns", best(read()))?;
    writeln!(out, "read 1 MiB      {:6.0} ns", best(read_chunked()))
}

/// Returns the best of several rounds, because the machine may be busy.
fn best(mut work: impl FnMut()) -> f64 {
    let round = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..ROUNDS / 10).for_each(|_| work());
        start.elapsed().as_nanos() as f64 / f64::from(ROUNDS / 10)
    };
    (0..10).map(|_| round(&mut work)).fold(f64::INFINITY, f64::min)
}

fn sign() -> impl FnMut() {
    let credentials = Credentials {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        session_token: None,
    };
    let mut signer = Signer::new(credentials, "us-east-1", "s3");
    let mut head = Vec::with_capacity(1024);
    move || {
        head.clear();
        http1::request_line(&mut head, Method::Get, b"/bench-ec-kb-1-17/bench-1234567", b"");
        let request = Request {
            method: Method::Get,
            path: b"/bench-ec-kb-1-17/bench-1234567",
            query: b"",
            host: b"127.0.0.1:7480",
            headers: &[],
            payload: Payload::Unsigned,
        };
        signer.sign(black_box(1_369_353_600), &request, &mut head);
        http1::finish(&mut head);
        black_box(&head);
    }
}

fn read_all(parser: &mut ResponseParser, answer: &[u8]) {
    parser.start(Method::Get);
    let mut rest = answer;
    loop {
        let progress = parser.next(rest).expect("the answer is sound");
        let consumed = progress.consumed;
        match black_box(progress.event) {
            Event::End => break,
            Event::More | Event::Head(_) | Event::Body(_) => rest = &rest[consumed..],
        }
    }
}

fn read() -> impl FnMut() {
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\nAccept-Ranges: bytes\r\n\
        Last-Modified: Sat, 21 Nov 2026 04:51:06 GMT\r\nx-rgw-object-type: Normal\r\n\
        ETag: \"d41d8cd98f00b204e9800998ecf8427e\"\r\nx-amz-request-id: tx00000d8e2\r\n\
        Content-Type: binary/octet-stream\r\nDate: Sat, 21 Nov 2026 04:51:06 GMT\r\n\
        Connection: Keep-Alive\r\n\r\n"
        .to_vec();
    answer.extend([7; 4096]);
    let mut parser = ResponseParser::default();
    move || read_all(&mut parser, black_box(&answer))
}

fn read_chunked() -> impl FnMut() {
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..16 {
        answer.extend(b"10000\r\n");
        answer.extend([7; 65536]);
        answer.extend(b"\r\n");
    }
    answer.extend(b"0\r\n\r\n");
    let mut parser = ResponseParser::default();
    move || read_all(&mut parser, black_box(&answer))
}
