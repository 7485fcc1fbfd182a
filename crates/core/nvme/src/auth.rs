//! Messages of in-band authentication (Base 8.3.5): what Authentication Send and Receive carry.
//!
//! Every message starts with a [`MessageHeader`]. The messages of DH-HMAC-CHAP (Base 8.3.5.5) have a fixed
//! part, defined here, and values of variable length behind it: challenge, response, DH value, in the order
//! that each structure's documentation gives.

use crate::{U16, U32};

/// Security Protocol of Authentication Send and Receive: NVMe (Base 6.1, 6.2).
pub const SECP_NVME: u8 = 0xE9;

/// Hash identifiers that a negotiation can list, and DH group identifiers (Base 8.3.5.5.2).
pub const MAX_IDS: usize = 30;

open_enum! {
    /// Authentication Type, AUTH_TYPE (Base 8.3.5.4, "AUTH_TYPE").
    pub struct AuthType: u8 {
        /// Messages of every protocol.
        COMMON = 0x00 => "Common Messages",
        /// DH-HMAC-CHAP.
        DH_HMAC_CHAP = 0x01 => "DH-HMAC-CHAP",
    }
}

open_enum! {
    /// Authentication Identifier, AUTH_ID: which message of its type (Base 8.3.5.4, "AUTH_ID").
    pub struct AuthId: u8 {
        /// AUTH_Negotiate (common).
        NEGOTIATE = 0x00 => "AUTH_Negotiate",
        /// DH-HMAC-CHAP_Challenge.
        CHALLENGE = 0x01 => "DH-HMAC-CHAP_Challenge",
        /// DH-HMAC-CHAP_Reply.
        REPLY = 0x02 => "DH-HMAC-CHAP_Reply",
        /// DH-HMAC-CHAP_Success1.
        SUCCESS1 = 0x03 => "DH-HMAC-CHAP_Success1",
        /// DH-HMAC-CHAP_Success2.
        SUCCESS2 = 0x04 => "DH-HMAC-CHAP_Success2",
        /// AUTH_Failure2 (common), by the host.
        FAILURE2 = 0xF0 => "AUTH_Failure2",
        /// AUTH_Failure1 (common), by the controller.
        FAILURE1 = 0xF1 => "AUTH_Failure1",
    }
}

open_enum! {
    /// Hash functions of DH-HMAC-CHAP, HashID (Base 8.3.5.5.2). In a secret's text, 0 is "no transform".
    pub struct HashId: u8 {
        /// SHA-256.
        SHA256 = 0x01 => "SHA-256",
        /// SHA-384.
        SHA384 = 0x02 => "SHA-384",
        /// SHA-512.
        SHA512 = 0x03 => "SHA-512",
    }
}

impl HashId {
    /// Every known one.
    pub const ALL: [Self; 3] = [Self::SHA256, Self::SHA384, Self::SHA512];

    /// Bytes of a hash; `None` if it is not a known function.
    #[must_use]
    pub const fn hash_bytes(self) -> Option<usize> {
        match self {
            Self::SHA256 => Some(32),
            Self::SHA384 => Some(48),
            Self::SHA512 => Some(64),
            _ => None,
        }
    }
}

open_enum! {
    /// Diffie-Hellman groups of DH-HMAC-CHAP, DHgID (Base 8.3.5.5.2): those of RFC 7919.
    pub struct DhGroupId: u8 {
        /// No Diffie-Hellman exchange.
        NULL = 0x00 => "NULL",
        /// 2048-bit group.
        FFDHE2048 = 0x01 => "ffdhe2048",
        /// 3072-bit group.
        FFDHE3072 = 0x02 => "ffdhe3072",
        /// 4096-bit group.
        FFDHE4096 = 0x03 => "ffdhe4096",
        /// 6144-bit group.
        FFDHE6144 = 0x04 => "ffdhe6144",
        /// 8192-bit group.
        FFDHE8192 = 0x05 => "ffdhe8192",
    }
}

impl DhGroupId {
    /// Every known one.
    pub const ALL: [Self; 6] =
        [Self::NULL, Self::FFDHE2048, Self::FFDHE3072, Self::FFDHE4096, Self::FFDHE6144, Self::FFDHE8192];

    /// Bytes of a value of the group; 0 for NULL, `None` if it is not a known group.
    #[must_use]
    pub const fn value_bytes(self) -> Option<usize> {
        match self {
            Self::NULL => Some(0),
            Self::FFDHE2048 => Some(256),
            Self::FFDHE3072 => Some(384),
            Self::FFDHE4096 => Some(512),
            Self::FFDHE6144 => Some(768),
            Self::FFDHE8192 => Some(1024),
            _ => None,
        }
    }
}

open_enum! {
    /// Reason Code Explanation of a failure whose Reason Code is 01h, Authentication Failure
    /// (Base 8.3.5.4.2, "AUTH_Failure1 and AUTH_Failure2").
    pub struct AuthFailure: u8 {
        /// Authentication failed: the response is wrong.
        FAILED = 0x01 => "Authentication failed",
        /// Authentication protocol not usable.
        PROTOCOL_NOT_USABLE = 0x02 => "Authentication protocol not usable",
        /// Secure channel concatenation mismatch.
        CONCATENATION_MISMATCH = 0x03 => "Secure channel concatenation mismatch",
        /// Hash function not usable.
        HASH_NOT_USABLE = 0x04 => "Hash function not usable",
        /// DH group not usable.
        DH_GROUP_NOT_USABLE = 0x05 => "DH group not usable",
        /// Incorrect payload.
        INCORRECT_PAYLOAD = 0x06 => "Incorrect payload",
        /// Incorrect protocol message.
        INCORRECT_MESSAGE = 0x07 => "Incorrect protocol message",
    }
}

/// Reason Code of AUTH_Failure1 and AUTH_Failure2: Authentication Failure, the only one defined.
pub const REASON_AUTHENTICATION_FAILURE: u8 = 0x01;

wire! {
    /// How every message starts (Base 8.3.5.4).
    pub struct MessageHeader[6] {
        /// AUTH_TYPE.
        pub auth_type: AuthType,
        /// AUTH_ID.
        pub auth_id: AuthId,
        /// Reserved.
        pub rsvd2: U16,
        /// Transaction Identifier: chosen by the host, the same in all messages of a transaction.
        pub t_id: U16,
    }

    /// AUTH_Negotiate (Base 8.3.5.4.1); [`Negotiate::napd`] descriptors of 64 bytes follow.
    pub struct Negotiate[8] {
        /// Header.
        pub header: MessageHeader,
        /// Secure Channel Concatenation: 0 for none.
        pub sc_c: u8,
        /// Number of Authentication Protocol Descriptors.
        pub napd: u8,
    }

    /// Authentication Protocol Descriptor for DH-HMAC-CHAP (Base 8.3.5.5.2).
    pub struct ProtocolDescriptor[64] {
        /// Authentication Protocol Identifier: 01h.
        pub authid: u8,
        /// Reserved.
        pub rsvd1: u8,
        /// Number of hash identifiers.
        pub halen: u8,
        /// Number of DH group identifiers.
        pub dhlen: u8,
        /// Hash identifiers, the host's favourite first.
        pub hashes: [HashId; MAX_IDS],
        /// DH group identifiers, the host's favourite first.
        pub dh_groups: [DhGroupId; MAX_IDS],
    }

    /// DH-HMAC-CHAP_Challenge (Base 8.3.5.5.3); the challenge C1 (HL bytes) and the controller's DH value
    /// (DHVLEN bytes) follow.
    pub struct Challenge[16] {
        /// Header.
        pub header: MessageHeader,
        /// Hash Length, HL.
        pub hl: u8,
        /// Reserved.
        pub rsvd7: u8,
        /// Hash function that the controller has chosen.
        pub hashid: HashId,
        /// DH group that the controller has chosen.
        pub dhgid: DhGroupId,
        /// DH Value Length, DHVLEN.
        pub dhvlen: U16,
        /// Sequence Number S1.
        pub seqnum: U32,
    }

    /// DH-HMAC-CHAP_Reply (Base 8.3.5.5.4); the response R1 (HL bytes), the challenge C2 (HL bytes, zeroes
    /// without one) and the host's DH value (DHVLEN bytes) follow.
    pub struct Reply[16] {
        /// Header.
        pub header: MessageHeader,
        /// Hash Length, HL.
        pub hl: u8,
        /// Reserved.
        pub rsvd7: u8,
        /// Challenge Valid: bit 0 is set when the host wants the controller to authenticate.
        pub cvalid: u8,
        /// Reserved.
        pub rsvd9: u8,
        /// DH Value Length, DHVLEN.
        pub dhvlen: U16,
        /// Sequence Number S2; 0 without bidirectional authentication.
        pub seqnum: U32,
    }

    /// DH-HMAC-CHAP_Success1 (Base 8.3.5.5.5); the response R2 (HL bytes) follows when it is valid.
    pub struct Success1[16] {
        /// Header.
        pub header: MessageHeader,
        /// Hash Length, HL.
        pub hl: u8,
        /// Reserved.
        pub rsvd7: u8,
        /// Response Valid: bit 0.
        pub rvalid: u8,
        /// Reserved.
        pub rsvd9: [u8; 7],
    }

    /// DH-HMAC-CHAP_Success2 (Base 8.3.5.5.6).
    pub struct Success2[16] {
        /// Header.
        pub header: MessageHeader,
        /// Reserved.
        pub rsvd6: [u8; 10],
    }

    /// AUTH_Failure1 and AUTH_Failure2 (Base 8.3.5.4.2).
    pub struct Failure[8] {
        /// Header.
        pub header: MessageHeader,
        /// Reason Code: 01h, Authentication Failure.
        pub rescode: u8,
        /// Reason Code Explanation.
        pub rescodeexp: AuthFailure,
    }
}
layout!(Challenge, 16, hl @ 6, hashid @ 8, dhgid @ 9, dhvlen @ 10, seqnum @ 12);
layout!(Reply, 16, hl @ 6, cvalid @ 8, dhvlen @ 10, seqnum @ 12);
layout!(Success1, 16, hl @ 6, rvalid @ 8);
layout!(ProtocolDescriptor, 64, halen @ 2, dhlen @ 3, hashes @ 4, dh_groups @ 34);

impl MessageHeader {
    /// A header.
    #[must_use]
    pub const fn new(auth_type: AuthType, auth_id: AuthId, t_id: u16) -> Self {
        Self { auth_type, auth_id, rsvd2: U16::ZERO, t_id: U16::new(t_id) }
    }

    /// The header of a DH-HMAC-CHAP message.
    #[must_use]
    pub const fn chap(auth_id: AuthId, t_id: u16) -> Self {
        Self::new(AuthType::DH_HMAC_CHAP, auth_id, t_id)
    }
}
