//! Predictable Latency Mode (Base 5.1.12.1.11, 5.1.12.1.12, 5.1.25.1.11, 5.1.25.1.12, 8.1.18).

use crate::U64;

open_enum! {
    /// Window of an NVM Set: Window Select of the feature, and status of the log.
    pub struct WindowSelect: u8 {
        /// Predictable Latency Mode is not enabled (status only).
        NOT_ENABLED = 0 => "Predictable Latency Mode not enabled",
        /// Deterministic Window.
        DETERMINISTIC = 1 => "Deterministic Window (DTWIN)",
        /// Non-Deterministic Window.
        NON_DETERMINISTIC = 2 => "Non-Deterministic Window (NDWIN)",
    }
}

bits16! {
    /// Events of Predictable Latency Mode: Event Type of the log, Enable Event of the feature.
    pub struct WindowEvents {
        /// DTWIN Reads Warning: fewer reads are left than the threshold.
        pub reads: bool,
        /// DTWIN Writes Warning.
        pub writes: bool,
        /// DTWIN Time Warning.
        pub time: bool,
        #[bits(11)]
        _r3: u16,
        /// Autonomous transition to NDWIN because a typical or maximum value was exceeded.
        pub exceeded: bool,
        /// Autonomous transition to NDWIN because of a Deterministic Excursion.
        pub excursion: bool,
    }
}

wire! {
    /// Deterministic Threshold Configuration: data of Predictable Latency Mode Config (FID 13h, Base 5.1.25.1.11).
    pub struct PredictableLatencyConfig[512] {
        /// Enable Event.
        pub ee: WindowEvents,
        /// Reserved.
        pub rsvd2: [u8; 30],
        /// DTWIN Reads Threshold in reads of 4 KiB.
        pub dtwinrt: U64,
        /// DTWIN Writes Threshold in units of the Optimal Write Size.
        pub dtwinwt: U64,
        /// DTWIN Time Threshold in milliseconds.
        pub dtwintt: U64,
        /// Reserved.
        pub rsvd56: [u8; 456],
    }

    /// Predictable Latency Per NVM Set log (LID 0Ah, Base 5.1.12.1.11).
    pub struct PredictableLatencyLog[512] {
        /// Status: the window in bits 2:0.
        pub status: WindowSelect,
        /// Reserved.
        pub rsvd1: u8,
        /// Event Type: what happened since the log was read without Retain Asynchronous Event.
        pub event_type: WindowEvents,
        /// Reserved.
        pub rsvd4: [u8; 28],
        /// DTWIN Reads Typical in reads of 4 KiB.
        pub dtwinrt: U64,
        /// DTWIN Writes Typical in units of the Optimal Write Size.
        pub dtwinwt: U64,
        /// DTWIN Time Maximum in milliseconds.
        pub dtwintm: U64,
        /// NDWIN Time Minimum High in milliseconds.
        pub ndwintmh: U64,
        /// NDWIN Time Minimum Low in milliseconds.
        pub ndwintml: U64,
        /// Reserved.
        pub rsvd72: [u8; 56],
        /// DTWIN Reads Estimate: what is left of the window, or what a window would have that began now.
        pub dtwinre: U64,
        /// DTWIN Writes Estimate.
        pub dtwinwe: U64,
        /// DTWIN Time Estimate in milliseconds.
        pub dtwinte: U64,
        /// Reserved.
        pub rsvd152: [u8; 360],
    }
}
layout!(PredictableLatencyConfig, 512, dtwinrt @ 32, dtwinwt @ 40, dtwintt @ 48);
layout!(PredictableLatencyLog, 512, event_type @ 2, dtwinrt @ 32, ndwintml @ 64, dtwinre @ 128, dtwinte @ 144);
