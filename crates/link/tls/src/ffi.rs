//! External pre-shared keys of TLS 1.3 (RFC 8446, 4.2.11), for which the crate `openssl` has no interface: its
//! callbacks know keys for SHA-256 only. This is all of the project's code around them.
//!
//! OpenSSL calls back with an `SSL` of ours while a handshake is driven through it. The state that a callback
//! needs is extra data of that `SSL`, owned and dropped by the crate `openssl`.
#![expect(unsafe_code, reason = "what is declared and called here is C")]

use std::ffi::{CStr, c_int, c_uchar, c_uint, c_void};
use std::ptr;

use foreign_types_shared::ForeignTypeRef;
use nvme::auth::HashId;
use openssl::ssl::{SslContextBuilder, SslRef};
use openssl_sys::{SSL, SSL_CIPHER, SSL_CTX, SSL_SESSION, SSL_client_hello_get0_ext, SSL_set_ciphersuites};

use fabric::auth::TlsKey;

use crate::{ClientKey, ServerKeys, client_index, server_index};

type FindSession = unsafe extern "C" fn(*mut SSL, *const c_uchar, usize, *mut *mut SSL_SESSION) -> c_int;
type UseSession = unsafe extern "C" fn(
    *mut SSL,
    *const c_void,
    *mut *const c_uchar,
    *mut usize,
    *mut *mut SSL_SESSION,
) -> c_int;

// Of OpenSSL 1.1.1 and later: SSL_CTX_set_psk_find_session_callback(3), SSL_CTX_set_psk_use_session_callback(3),
// SSL_SESSION_get0_cipher(3), SSL_SESSION_get_protocol_version(3), SSL_get_client_ciphers(3).
unsafe extern "C" {
    fn SSL_CTX_set_psk_find_session_callback(ctx: *mut SSL_CTX, callback: Option<FindSession>);
    fn SSL_CTX_set_psk_use_session_callback(ctx: *mut SSL_CTX, callback: Option<UseSession>);
    fn SSL_SESSION_new() -> *mut SSL_SESSION;
    fn SSL_SESSION_free(session: *mut SSL_SESSION);
    fn SSL_SESSION_set1_master_key(session: *mut SSL_SESSION, key: *const c_uchar, len: usize) -> c_int;
    fn SSL_SESSION_set_cipher(session: *mut SSL_SESSION, cipher: *const SSL_CIPHER) -> c_int;
    fn SSL_SESSION_set_protocol_version(session: *mut SSL_SESSION, version: c_int) -> c_int;
    fn SSL_CIPHER_find(ssl: *mut SSL, id: *const c_uchar) -> *const SSL_CIPHER;
}

/// The extension `pre_shared_key`.
const PRE_SHARED_KEY: c_uint = 41;

/// The version on the wire of TLS 1.3.
const TLS1_3: c_int = 0x0304;

/// Lets a server's contexts find the keys of clients.
pub(crate) fn find_keys(context: &mut SslContextBuilder) {
    // SAFETY: the context is valid, and the function has the type that OpenSSL expects.
    unsafe { SSL_CTX_set_psk_find_session_callback(context.as_ptr(), Some(find_session)) }
}

/// Lets a client's contexts use their key.
pub(crate) fn use_key(context: &mut SslContextBuilder) {
    // SAFETY: the context is valid, and the function has the type that OpenSSL expects.
    unsafe { SSL_CTX_set_psk_use_session_callback(context.as_ptr(), Some(use_session)) }
}

/// The extension of a ClientHello that lists pre-shared keys; only inside of the callback for ClientHello.
pub(crate) fn pre_shared_keys(ssl: &SslRef) -> Option<&[u8]> {
    let (mut bytes, mut len) = (ptr::null(), 0);
    // SAFETY: the SSL is valid and not changed by the call. What it returns lives as long as the ClientHello,
    // that is until the callback returns, and the callback's borrow of the SSL is longer than the result.
    unsafe {
        if SSL_client_hello_get0_ext(ssl.as_ptr(), PRE_SHARED_KEY, &mut bytes, &mut len) != 1
            || bytes.is_null()
        {
            return None;
        }
        Some(std::slice::from_raw_parts(bytes, len))
    }
}

/// Restricts a connection to the cipher suites of OpenSSL's names; false if that fails.
pub(crate) fn set_ciphersuites(ssl: &mut SslRef, names: &CStr) -> bool {
    // SAFETY: the SSL is valid, and the string ends with a zero.
    unsafe { SSL_set_ciphersuites(ssl.as_ptr(), names.as_ptr()) == 1 }
}

/// A session that says no more than a key and its cipher suite; null if OpenSSL has no memory, or not the suite.
///
/// # Safety
/// `ssl` is valid.
unsafe fn session(ssl: *mut SSL, key: &TlsKey) -> *mut SSL_SESSION {
    let suite: [c_uchar; 2] = if key.hash == HashId::SHA384 { [0x13, 0x02] } else { [0x13, 0x01] };
    // SAFETY: `ssl` is valid by this function's contract. The session is checked before it is used and freed here
    // if it is not returned; the suite's two bytes and the key are read during the calls only.
    unsafe {
        let cipher = SSL_CIPHER_find(ssl, suite.as_ptr());
        let session = SSL_SESSION_new();
        if session.is_null() {
            return session;
        }
        let secret = key.secret();
        if cipher.is_null()
            || SSL_SESSION_set1_master_key(session, secret.as_ptr(), secret.len()) != 1
            || SSL_SESSION_set_cipher(session, cipher) != 1
            || SSL_SESSION_set_protocol_version(session, TLS1_3) != 1
        {
            SSL_SESSION_free(session);
            return ptr::null_mut();
        }
        session
    }
}

/// OpenSSL asks a server for the key of an identity. Returns 0 only for failure; an unknown identity is none.
unsafe extern "C" fn find_session(
    ssl: *mut SSL,
    identity: *const c_uchar,
    len: usize,
    found: *mut *mut SSL_SESSION,
) -> c_int {
    // SAFETY: OpenSSL passes the SSL that it works on, an identity of that length, and a place for the result. Nothing else refers to that
    // SSL at that time. The session returned becomes OpenSSL's.
    unsafe {
        *found = ptr::null_mut();
        if identity.is_null() {
            return 1;
        }
        let identity = std::slice::from_raw_parts(identity, len);
        let Some(index) = server_index() else { return 0 };
        let Some(state) = SslRef::from_ptr_mut(ssl).ex_data_mut(index) else { return 0 };
        let state: &mut ServerKeys = state;
        if let Some(key) = state.choose(identity) {
            *found = session(ssl, &key);
        }
        1
    }
}

/// OpenSSL asks a client for its key.
unsafe extern "C" fn use_session(
    ssl: *mut SSL,
    _digest: *const c_void,
    identity: *mut *const c_uchar,
    len: *mut usize,
    used: *mut *mut SSL_SESSION,
) -> c_int {
    // SAFETY: OpenSSL passes the SSL that it works on and places for the results. The identity belongs to the
    // SSL's extra data, which is never changed and lives as long as the SSL. The session becomes OpenSSL's.
    unsafe {
        *used = ptr::null_mut();
        let Some(index) = client_index() else { return 0 };
        let Some(ClientKey(key)) = SslRef::from_ptr(ssl).ex_data(index) else { return 0 };
        *used = session(ssl, key);
        if (*used).is_null() {
            return 0;
        }
        *identity = key.identity.as_ptr();
        *len = key.identity.len();
        1
    }
}
