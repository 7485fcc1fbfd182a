//! Requests and answers.

use crate::ask::{Ask, Change, Route, route};
use crate::assets::Asset;
use crate::events;
use crate::guard::{Guard, Head, Verdict};
use crate::refusal::Refusal;
use crate::source::Source;
use crate::studies::Studies;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::sync::Arc;
use tokio::sync::Semaphore;
use web::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use web::{Body, Bytes, Incoming, Method, Progress, Request, Response, StatusCode, empty, file};

/// Bytes of a request's body, at most.
pub const BODY: usize = 64 << 10;
/// Streams of samples at a time.
pub const STREAMS: usize = 16;

/// What the page may do: use what comes from here, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
     connect-src 'self'; manifest-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// What a report may do: show itself.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'self'";

/// What answers.
#[derive(Clone)]
pub(crate) struct Service<S> {
    drive: S,
    guard: Arc<Guard>,
    studies: Studies,
    streams: Arc<Semaphore>,
}

fn json(value: &serde_json::Value) -> Response<Body> {
    file(StatusCode::OK, "application/json", value.to_string())
}

fn page(path: &str) -> Result<Response<Body>, Refusal> {
    let asset = Asset::at(path)
        .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, format!("there is no file {path}")))?;
    let mut response = file(StatusCode::OK, asset.content_type, Bytes::from_static(asset.bytes));
    if asset.is_immutable() {
        let for_ever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(CACHE_CONTROL, for_ever);
    }
    Ok(response)
}

/// Reads a body that is not too large.
async fn body(request: Request<Incoming>) -> Result<Bytes, Refusal> {
    match Limited::new(request.into_body(), BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a request's body has at most {BODY} bytes"),
        )),
        Err(_) => Err(Refusal::bad("the request's body does not come to its end")),
    }
}

impl<S: Source> Service<S> {
    pub fn new(drive: S, guard: Guard, studies: Studies) -> Service<S> {
        Service { drive, guard: Arc::new(guard), studies, streams: Arc::new(Semaphore::new(STREAMS)) }
    }

    async fn change(&self, change: Change, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let ask: Ask = change.with_body(&body(request).await?)?;
        Ok(json(&self.drive.ask(ask).await?))
    }

    /// Reads files without holding up others.
    async fn reading<R: Send + 'static>(
        &self,
        read: impl FnOnce(Studies) -> R + Send + 'static,
    ) -> Result<R, Refusal> {
        let studies = self.studies.clone();
        tokio::task::spawn_blocking(move || read(studies))
            .await
            .map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the reports cannot be read"))
    }

    async fn samples(&self, progress: Progress) -> Result<Response<Body>, Refusal> {
        let Ok(place) = self.streams.clone().try_acquire_owned() else {
            let why = format!("{STREAMS} pages watch already: close one");
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        };
        let mut response = Response::new(events::samples(self.drive.clone(), place, progress));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        progress: Progress,
    ) -> Result<Response<Body>, Refusal> {
        let uri = request.uri().clone();
        let (method, path, query) = (request.method().clone(), uri.path(), uri.query());
        let verdict = self.guard.check(&Head { method: &method, path, query, headers: request.headers() })?;
        if let Verdict::GiveCookie(cookie) = verdict {
            let mut response = Response::new(empty());
            *response.status_mut() = StatusCode::SEE_OTHER;
            let headers = response.headers_mut();
            headers.insert(LOCATION, HeaderValue::from_static("/"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                headers.insert(SET_COOKIE, cookie);
            }
            return Ok(response);
        }
        match route(&method, path, query)? {
            Route::Page(path) => page(&path),
            Route::Look(ask) => Ok(json(&self.drive.ask(ask).await?)),
            Route::Samples => self.samples(progress).await,
            Route::Change(change) => self.change(change, request).await,
            Route::Studies => Ok(json(&self.reading(|studies| studies.list()).await?)),
            Route::Report(name) => {
                let report = self.reading(move |studies| studies.report(&name)).await?;
                let report =
                    report.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "there is no such report"))?;
                let mut response = file(StatusCode::OK, "text/html; charset=utf-8", report);
                let policy = HeaderValue::from_static(REPORT_POLICY);
                response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
                Ok(response)
            }
        }
    }
}

impl<S: Source> web::Service for Service<S> {
    async fn answer(&self, request: Request<Incoming>, progress: Progress) -> Response<Body> {
        let method = request.method().clone();
        let mut response = match self.respond(request, progress).await {
            Ok(response) => response,
            Err(refusal) => refusal.response(),
        };
        let wrong_method = response.status() == StatusCode::METHOD_NOT_ALLOWED;
        let headers = response.headers_mut();
        if wrong_method {
            let others = if method == Method::GET { "POST, PUT, DELETE" } else { "GET, POST, PUT, DELETE" };
            headers.insert(ALLOW, HeaderValue::from_static(others));
        }
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(PAGE_POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        for name in ["cross-origin-resource-policy", "cross-origin-opener-policy"] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("same-origin"));
        }
        response
    }
}
