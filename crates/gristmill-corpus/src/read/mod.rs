//! Units into documents.
