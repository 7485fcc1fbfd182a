//! Who may ask: this view's own page, and programs that know the token.
//!
//! - **Token**: each request needs it, also on loopback, where any user of the machine can connect. A browser brings it once, in
//!   the address, and gets a cookie for it. A page that lets its own name lead here (DNS rebinding) has neither.
//! - **Requests across sites**: a request with an `Origin`, or with `Sec-Fetch-Site`, must come from the page itself. What changes something has to
//!   say that it is JSON, which other sites cannot say without asking first.

use crate::refusal::Refusal;
use std::fmt::Write;
use web::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use web::{Method, StatusCode};

/// Characters of a token: at least, and at most.
pub const TOKEN: std::ops::RangeInclusive<usize> = 16..=256;

/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// What a client has to know.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token of 16 to 256 letters, digits, and the signs `-`, `_`, `.` and `~`, which addresses take as they are.
    ///
    /// # Errors
    /// What is wrong with it, in words that do not repeat it.
    pub fn new(text: &str) -> Result<Token, &'static str> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if !TOKEN.contains(&text.len()) {
            return Err("a token has 16 to 256 characters");
        }
        if !text.bytes().all(fits) {
            return Err("a token has letters, digits, and the signs - _ . ~ only");
        }
        Ok(Token(text.to_owned()))
    }

    /// A new token of 64 hexadecimal digits.
    #[must_use]
    pub fn random() -> Token {
        Token(random_text())
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Hexadecimal digits that cannot be guessed.
fn random_text() -> String {
    let mut random = [0; SECRET_BYTES];
    host::fill_random(&mut random);
    random.iter().fold(String::new(), |mut text, byte| {
        // Memory takes it.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// Compares without telling by its time where two texts differ.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

/// What is let through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The request.
    Pass,
    /// A request that brought the token in its address: it gets this cookie, and goes on without the token.
    GiveCookie(String),
}

/// The rules of one view.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    token: Token,
    /// The cookie's name. A browser sends the cookies of an address to all of its ports: each view has a name of its own.
    cookie: String,
    /// What the cookie holds in place of the token.
    session: String,
}

/// A request, without its body.
pub(crate) struct Head<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
}

fn forbidden(why: &str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, why)
}

/// The value of a header; none if it is not there, or is no text.
fn value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl Guard {
    /// Of the view at this port.
    pub fn new(token: Token, port: u16) -> Guard {
        Guard { token, cookie: format!("tranche_ui_{port}"), session: random_text() }
    }

    /// Whether a request is carried out.
    pub fn check(&self, head: &Head<'_>) -> Result<Verdict, Refusal> {
        let host = self.check_host(head)?;
        self.check_site(head, host)?;
        let verdict = self.check_token(head)?;
        if ![Method::GET, Method::HEAD].contains(head.method) {
            let kind = value(head.headers, &CONTENT_TYPE).unwrap_or_default();
            let kind = kind.split(';').next().unwrap_or_default().trim();
            if !kind.eq_ignore_ascii_case("application/json") {
                return Err(forbidden(
                    "a request that changes something needs the header 'Content-Type: application/json'",
                ));
            }
        }
        Ok(verdict)
    }

    fn check_host<'a>(&self, head: &'a Head<'_>) -> Result<&'a str, Refusal> {
        let mut hosts = head.headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
        let host = host.filter(|host| web::name_of(host).is_some());
        host.ok_or_else(|| forbidden("the request does not say which host it is for"))
    }

    fn check_site(&self, head: &Head<'_>, host: &str) -> Result<(), Refusal> {
        let other =
            || forbidden("the request comes from another site's page: only the view's own page may ask");
        if let Some(origin) = head.headers.get(ORIGIN) {
            let origin = origin.to_str().ok();
            let of =
                origin.and_then(|origin| origin.strip_prefix("http://").or(origin.strip_prefix("https://")));
            if !of.is_some_and(|of| of.eq_ignore_ascii_case(host)) {
                return Err(other());
            }
        }
        // Links from elsewhere may lead to the page; nothing else may.
        let page = !head.path.starts_with("/api/") && [Method::GET, Method::HEAD].contains(head.method);
        match value(head.headers, &HeaderName::from_static("sec-fetch-site")) {
            Some("cross-site" | "same-site") if !page => Err(other()),
            _ => Ok(()),
        }
    }

    fn check_token(&self, head: &Head<'_>) -> Result<Verdict, Refusal> {
        let Token(token) = &self.token;
        // First, so that the token leaves the address of a browser that has the cookie, too.
        let given = head.query.and_then(|query| query.strip_prefix("token="));
        if *head.method == Method::GET && head.path == "/" && given.is_some_and(|given| is_same(given, token))
        {
            let (name, session) = (&self.cookie, &self.session);
            return Ok(Verdict::GiveCookie(format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict")));
        }
        if let Some(bearer) =
            value(head.headers, &AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "))
            && is_same(bearer, token)
        {
            return Ok(Verdict::Pass);
        }
        let cookies = head.headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        if pairs.any(|(name, value)| name == self.cookie && is_same(value, &self.session)) {
            return Ok(Verdict::Pass);
        }
        Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "this view needs its token: open /?token=TOKEN once, or send the header 'Authorization: Bearer TOKEN' (the token is in the \
             address that was printed at the start, or in the file of --ui-token)",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "a-token-of-some-length";

    fn guard() -> Guard {
        Guard::new(Token::new(SECRET).unwrap(), 8420)
    }

    fn status(guard: &Guard, method: &Method, address: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let (path, query) =
            address.split_once('?').map_or((address, None), |(path, query)| (path, Some(query)));
        match guard.check(&Head { method, path, query, headers: &map }) {
            Ok(Verdict::Pass) => 200,
            Ok(Verdict::GiveCookie(_)) => 303,
            Err(refusal) => refusal.status.as_u16(),
        }
    }

    #[test]
    fn other_sites_may_lead_to_the_page_and_do_nothing_else() {
        let guard = guard();
        let host = ("host", "localhost:8420");
        let known = ("authorization", &*format!("Bearer {SECRET}"));
        let json = ("content-type", "application/json");
        let post = |more: &[(&'static str, &str)]| {
            status(&guard, &Method::POST, "/api/power-cut", &[&[host, known, json], more].concat())
        };
        assert_eq!(post(&[]), 200, "a program sends no origin");
        assert_eq!(post(&[("origin", "http://localhost:8420"), ("sec-fetch-site", "same-origin")]), 200);
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:3000",
            "http://127.0.0.1:8420",
            "localhost:8420",
            "",
            "file://",
        ] {
            assert_eq!(post(&[("origin", origin)]), 403, "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(post(&[("sec-fetch-site", site)]), 403, "{site}");
            assert_eq!(
                status(&guard, &Method::GET, "/api/state", &[host, known, ("sec-fetch-site", site)]),
                403
            );
            assert_eq!(status(&guard, &Method::GET, "/", &[host, known, ("sec-fetch-site", site)]), 200);
        }
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/jsonp",
            "",
        ] {
            let refused =
                status(&guard, &Method::POST, "/api/power-cut", &[host, known, ("content-type", kind)]);
            assert_eq!(refused, 403, "{kind}");
        }
        assert_eq!(status(&guard, &Method::DELETE, "/api/namespaces/1", &[host, known]), 403);
        let charset = ("content-type", "Application/JSON; charset=utf-8");
        assert_eq!(status(&guard, &Method::PUT, "/api/namespaces/1/quota", &[host, known, charset]), 200);
    }

    #[test]
    fn a_token_is_a_must() {
        let guard = guard();
        let session = guard.session.clone();
        let host = ("host", "lab.example:8420");
        let get = |address: &str, more: &[(&'static str, &str)]| {
            status(&guard, &Method::GET, address, &[&[host], more].concat())
        };
        assert_eq!(get("/", &[]), 401);
        assert_eq!(get("/api/state", &[("authorization", &format!("Bearer {SECRET}"))]), 200);
        assert_eq!(get("/api/state", &[("cookie", &format!("a=b; tranche_ui_8420={session}"))]), 200);
        assert_eq!(get(&format!("/?token={SECRET}"), &[]), 303);
        for wrong in [format!("/?token={SECRET}x"), "/?token=".into(), format!("/api/state?token={SECRET}")] {
            assert_eq!(get(&wrong, &[]), 401, "{wrong}");
        }
        let other = format!("tranche_ui_8421={session}");
        assert_eq!(get("/api/state", &[("cookie", &other)]), 401, "another view's cookie");
        let other = format!("tranche_ui_8420={SECRET}");
        assert_eq!(get("/api/state", &[("cookie", &other)]), 401, "the token is no session");
        assert_eq!(get("/api/state", &[("authorization", SECRET)]), 401);
        for wrong in
            ["Bearer ", "Bearer another-token-of-length", &format!("Bearer {SECRET}x"), "Bearer a-token"]
        {
            assert_eq!(get("/api/state", &[("authorization", wrong)]), 401, "{wrong}");
        }
        let known = ("authorization", &*format!("Bearer {SECRET}"));
        for hosts in [&[][..], &[("host", "")], &[host, host], &[("host", "localhost:x")]] {
            let headers = [hosts, &[known]].concat();
            assert_eq!(status(&guard, &Method::GET, "/", &headers), 403, "{hosts:?}");
        }
        for wrong in ["", "short", "with a space in it", "ümlaut-ümlaut-ümlaut", &"x".repeat(257)] {
            assert!(Token::new(wrong).is_err(), "{wrong}");
        }
        let random = [Token::random(), Token::random()];
        assert!(random[0] != random[1] && Token::new(random[0].text()).as_ref() == Ok(&random[0]));
        assert_eq!(format!("{:?}", Token::new(SECRET).unwrap()), "(secret)");
    }
}
