//! Why a request is refused: a status of HTTP, and words.

use host::TransportError;
use nvme::Status;
use serde_json::json;
use web::{Body, Response, StatusCode, file};

/// A request that is not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    /// What, where, what to do next.
    pub why: String,
}

impl Refusal {
    pub fn new(status: StatusCode, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }

    /// The request makes no sense.
    pub fn bad(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, why)
    }

    pub fn response(&self) -> Response<Body> {
        let body = json!({ "error": self.why }).to_string();
        file(self.status, "application/json", body)
    }
}

/// An error of the drive in words, without the codes of its status.
pub(crate) fn explain(error: &host::Error) -> String {
    let is = |status: Status| error.status().is_some_and(|found| found.is(status));
    match error {
        _ if is(Status::POWER_LOSS) => "The drive has no power.".to_owned(),
        host::Error::Transport(TransportError::Closed) => "The drive has closed the connection.".to_owned(),
        _ if is(Status::ABORTED_SQ_DELETION) => "The drive has closed the connection.".to_owned(),
        _ if error.is_lost() => format!("The drive cannot be reached: {error}."),
        host::Error::Command { what, status } => match status.words() {
            Some(words) => format!("{what}: the drive answered: {words}"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

impl From<host::Error> for Refusal {
    fn from(error: host::Error) -> Refusal {
        let is = |status: Status| error.status().is_some_and(|found| found.is(status));
        let status = match &error {
            host::Error::Transport(TransportError::Timeout(_)) => StatusCode::GATEWAY_TIMEOUT,
            _ if error.is_lost() => StatusCode::SERVICE_UNAVAILABLE,
            host::Error::Absent(_) => StatusCode::NOT_FOUND,
            host::Error::Usage(_) => StatusCode::BAD_REQUEST,
            host::Error::Command { .. } if is(Status::OPERATION_DENIED) => StatusCode::FORBIDDEN,
            host::Error::Command { .. } if is(Status::INVALID_NAMESPACE) => StatusCode::NOT_FOUND,
            host::Error::Command { .. } if is(Status::INVALID_FIELD) => StatusCode::BAD_REQUEST,
            host::Error::Command { .. } => StatusCode::CONFLICT,
            _ => StatusCode::BAD_GATEWAY,
        };
        Refusal::new(status, explain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_drive_answers_has_a_status() {
        let of =
            |status| Refusal::from(host::Error::Command { what: "asking".into(), status }).status.as_u16();
        assert_eq!(of(Status::OPERATION_DENIED), 403);
        assert_eq!(of(Status::INVALID_NAMESPACE.with_dnr()), 404);
        assert_eq!(of(Status::NAMESPACE_INSUFFICIENT_CAPACITY), 409);
        assert_eq!(of(Status::POWER_LOSS), 503);
        assert!(host::Error::from(TransportError::Closed).is_lost());
        assert!(!host::Error::Absent("namespace 9".into()).is_lost());
        let power = host::Error::Command { what: "asking".into(), status: Status::POWER_LOSS };
        assert_eq!(Refusal::from(power).why, "The drive has no power.");
        let full = host::Error::Command {
            what: "creating".into(),
            status: Status::NAMESPACE_INSUFFICIENT_CAPACITY.with_dnr(),
        };
        assert_eq!(Refusal::from(full).why, "creating: the drive answered: Namespace Insufficient Capacity");
        let refusal = Refusal::bad("a \"word\"");
        assert_eq!(refusal.response().status(), 400);
    }
}
