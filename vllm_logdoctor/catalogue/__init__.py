"""The packs room: what each message means, as data that people can read, test and extend."""
